"""Decision of role nfs_client: the mounts that a host needs, those that cannot work, and those that are pending."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Set

Mount = Mapping[str, Any]
LOOPBACK = ("127.0.0.1", "127.0.1.1", "::1")
# Options that the kernel reports; the others only affect systemd and mount.
REPORTED = re.compile(r"^(vers=|hard$|soft$|nconnect=|proto=|nosuid$|nodev$|noatime$|rsize=|wsize=|actimeo=)")
FSTAB = "/etc/fstab"


def lookups(mounts: Sequence[Mount]) -> Dict[str, List[str]]:
    """Read-only commands: the addresses of each server, and the first entry of each mount point."""
    first = ["-maxdepth", "1", "-mindepth", "1", "-print", "-quit"]
    servers = {f"server {mount['server']}": ["getent", "ahosts", mount["server"]] for mount in mounts}
    contents = {f"content {mount['mountpoint']}": ["find", mount["mountpoint"], *first] for mount in mounts}
    return {**servers, **contents}


def probes(mounts: Sequence[Mount], writer: str) -> Dict[str, List[str]]:
    """Commands that test whether a mount answers and whether `writer` may write to it; no writer, no such test."""
    found = {}
    for path in (mount["mountpoint"] for mount in mounts):
        found[f"probe {path}"] = ["stat", "--file-system", path]
        if writer:
            found[f"write {path}"] = ["runuser", "-u", writer, "--", "test", "-w", path]
    return found


def decide(state: Mapping[str, Any], mounts: Sequence[Mount], options: Sequence[str], writer: str) -> Dict[str, Any]:
    """Decision on the wanted mounts. `options` are those of a mount that names none.

    `own` are mounts whose server is the host itself, `loops` the mount points of those that it would mount, and
    `wanted` all others. `unresolved` (servers) and `occupied` (mount points with files) cannot work. `not_mounted` and
    `not_in_fstab` differ from the wanted state, `pending` are both. `silent` are the probes that failed.
    """
    commands = state["commands"]
    own = _own(commands, mounts)
    wanted = _unique([mount for mount in mounts if mount not in own])
    there = _mounted(commands)
    targets = {row["target"] for row in there}
    not_mounted = [mount for mount in wanted if not _is_mounted(mount, there, mount.get("options", options))]
    fstab = state["files"][FSTAB]["content"]
    not_in_fstab = [mount for mount in wanted if _fstab_line(mount, options) not in fstab]
    return {
        "own": own,
        "loops": [mount["mountpoint"] for mount in own if mount["path"] != mount["mountpoint"]],
        "wanted": wanted,
        "unresolved": _unique([m["server"] for m in mounts if _answer(commands, m)["rc"] != 0]),
        "occupied": [m["mountpoint"] for m in wanted if m["mountpoint"] not in targets and _has_files(commands, m)],
        "not_mounted": not_mounted,
        "not_in_fstab": not_in_fstab,
        "pending": _unique(not_mounted + not_in_fstab),
        "silent": [name for name in probes(mounts, writer) if commands[name]["rc"] != 0],
    }


def _own(commands: Mapping[str, Any], mounts: Sequence[Mount]) -> List[Mount]:
    addresses = {*commands["addresses"]["stdout"].split(), *LOOPBACK}
    return [mount for mount in mounts if addresses & _addresses(_answer(commands, mount)["stdout"])]


def _answer(commands: Mapping[str, Any], mount: Mount) -> Mapping[str, Any]:
    """Answer of the name lookup of the mount's server."""
    answer: Mapping[str, Any] = commands[f"server {mount['server']}"]
    return answer


def _addresses(answer: str) -> Set[str]:
    """First column of `getent ahosts`."""
    return {line.split()[0] for line in answer.splitlines() if line.split()}


def _mounted(commands: Mapping[str, Any]) -> List[Mapping[str, str]]:
    """Rows of `findmnt --json`, which prints nothing where nothing is mounted."""
    rows: List[Mapping[str, str]] = json.loads(commands["mounted"]["stdout"] or "{}").get("filesystems", [])
    return rows


def _is_mounted(mount: Mount, there: Sequence[Mapping[str, str]], options: Sequence[str]) -> bool:
    source = f"{mount['server']}:{mount['path']}"
    rows = [row for row in there if row["target"] == mount["mountpoint"] and row["source"] == source]
    reported = {option for option in options if REPORTED.search(option)}
    return bool(rows) and reported <= set(rows[-1]["options"].split(","))


def _fstab_line(mount: Mount, options: Sequence[str]) -> str:
    """The line up to the numbers of dump and fsck, as ansible.posix.mount writes it."""
    joined = ",".join(mount.get("options", options))
    return f"{mount['server']}:{mount['path']} {mount['mountpoint']} nfs {joined} "


def _has_files(commands: Mapping[str, Any], mount: Mount) -> bool:
    return bool(commands[f"content {mount['mountpoint']}"]["stdout"])


def _unique(items: Sequence[Any]) -> List[Any]:
    found: List[Any] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"nfs_client_lookups": lookups, "nfs_client_probes": probes, "nfs_client_decision": decide}
