"""Computations of role nfs_server: export directories, exports that are missing or taken away, threads, clients."""

from __future__ import annotations

import configparser
import re
from typing import Any, Callable, Dict, List, Tuple

from ansible_collections.ddp.play.plugins.module_utils import reboot_occupants

ATTRIBUTES = ("owner", "group", "mode")


def directories(exports: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Entries for ddp.play.files. An existing directory keeps the attributes that its export does not name."""
    return [
        {"path": export["path"], "state": "directory", **{key: export[key] for key in ATTRIBUTES if export.get(key)}}
        for export in exports
    ]


def missing(exports: List[Dict[str, Any]], exported: str) -> List[str]:
    """Path and client of every export that the kernel does not have. exported: text of `exportfs -s`.

    It prints a line for each client: /srv/data  10.1.0.0/16(rw,wdelay,root_squash)
    """
    pairs = [(export["path"], client) for export in exports for client in export["clients"]]
    return [f"{path} to {client}" for path, client in pairs if not re.search(_line(path, client), exported)]


def _line(path: str, client: str) -> str:
    return r"(?m)^" + re.escape(path) + r"\s+" + re.escape(client) + r"[^\s(]*\("


def taken(wanted: str, there: str) -> List[str]:
    """Path and client of every export of the file that the wanted text lacks, or has with other options.

    wanted, there: texts of exports files. Connected clients would lose what the text no longer has.
    """
    new = _exports(wanted)
    return [_taken(key, line, key in new) for key, line in _exports(there).items() if new.get(key) != line]


def kept(wanted: str, there: str) -> str:
    """The wanted text with all that the file has already: its exports stay as they are, new ones are added."""
    comments = [line for line in wanted.splitlines() if line.startswith("#")]
    exports = {**_exports(wanted), **_exports(there)}
    return "".join(f"{line}\n" for line in [*comments, *exports.values()])


def _exports(text: str) -> Dict[Tuple[str, str], str]:
    """A line for each path and client. Lines with quotes or default options stay whole, with their text as the key."""
    found: Dict[Tuple[str, str], str] = {}
    for line in text.replace("\\\n", " ").splitlines():
        words = re.split(r"(?:^|\s)#", line)[0].split()
        if len(words) < 2 or any(word.startswith("-") or '"' in word for word in words):
            found.update({(whole, ""): whole for whole in [" ".join(words)] if whole})
            continue
        found.update({(words[0], word.partition("(")[0]): f"{words[0]} {word}" for word in words[1:]})
    return found


def _taken(key: Tuple[str, str], line: str, changes: bool) -> str:
    options = line.partition("(")[2].rstrip(")") or "the defaults"
    return " to ".join(filter(None, key)) + (f" (now {options})" if changes else "")


def threads(site_conf: str, wanted: int) -> int:
    """Threads of the server: a higher number in the site's /etc/nfs.conf is kept."""
    parser = configparser.ConfigParser(strict=False, allow_no_value=True, interpolation=None)
    try:
        parser.read_string(site_conf)
        return max(wanted, parser.getint("nfsd", "threads", fallback=wanted))
    except (configparser.Error, ValueError, TypeError):
        return wanted


def clients(answer: Dict[str, Any], active: str) -> List[str]:
    """Peers connected to a running server, without ports. answer: of `ss -Htn`."""
    return reboot_occupants.nfs_peers(answer["rc"], answer["stdout"]) if active == "active" else []


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "nfs_server_directories": directories,
            "nfs_server_missing": missing,
            "nfs_server_taken": taken,
            "nfs_server_kept": kept,
            "nfs_server_threads": threads,
            "nfs_server_clients": clients,
        }
