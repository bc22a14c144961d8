"""Computations of role nfs_server: export directories, drift, threads, connected clients."""

from __future__ import annotations

import configparser
from typing import Any, Callable, Dict, List

ATTRIBUTES = ("owner", "group", "mode")


def directories(exports: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Entries for ddp.play.files. An existing directory keeps the attributes that its export does not name."""
    return [
        {"path": export["path"], "state": "directory", **{key: export[key] for key in ATTRIBUTES if export.get(key)}}
        for export in exports
    ]


def drifted(wanted: List[Dict[str, Any]], found: Dict[str, Dict[str, Any]]) -> List[str]:
    """Paths whose text, type or named mode differs. found: the files that ddp.play.host_state returned."""
    return [want["path"] for want in wanted if _differs(want, found[want["path"]])]


def _differs(want: Dict[str, Any], there: Dict[str, Any]) -> bool:
    if want.get("state") == "directory":
        # A link to a directory counts as a directory; the mode of the link itself is meaningless.
        is_directory = there["type"] == "directory"
        return there["type"] not in ("directory", "link") or bool(
            is_directory and want.get("mode") and there["mode"] != want["mode"]
        )
    return bool(there.get("content") != want["content"] or there.get("mode") != want.get("mode", "0644"))


def threads(site_conf: str, wanted: int) -> int:
    """Threads of the server: a higher number in the site's /etc/nfs.conf is kept."""
    parser = configparser.ConfigParser(strict=False, allow_no_value=True, interpolation=None)
    try:
        parser.read_string(site_conf)
        return max(wanted, parser.getint("nfsd", "threads", fallback=wanted))
    except (configparser.Error, ValueError, TypeError):
        return wanted


def clients(answer: Dict[str, Any], active: str) -> List[str]:
    """Peers connected to a running server, without ports. answer: of `ss -Htn`, whose last column is the peer."""
    if active != "active":
        return []
    if answer["rc"] != 0:
        return [f"unknown clients (ss: exit code {answer['rc']})"]
    peers = (line.split()[-1].rpartition(":")[0] for line in answer["stdout"].splitlines() if line.split())
    return sorted(set(peers))


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "nfs_server_directories": directories,
            "nfs_server_drifted": drifted,
            "nfs_server_threads": threads,
            "nfs_server_clients": clients,
        }
