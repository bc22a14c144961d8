"""Decision of role nfs_client: the mounts that a host needs, impossible and pending ones, and their units."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, List, Mapping, Sequence, Set

from ansible_collections.ddp.play.plugins.module_utils import mount_lines

Mount = Mapping[str, Any]
LOOPBACK = ("127.0.0.1", "127.0.1.1", "::1")
# Options that the kernel reports; the others only affect systemd and mount.
REPORTED = re.compile(r"^(vers=|hard$|soft$|nconnect=|proto=|nosuid$|nodev$|noatime$|rsize=|wsize=|actimeo=)")
FSTAB = "/etc/fstab"
AUTOMOUNT = "x-systemd.automount"
# systemd ends an automount for good when its mount fails five times in ten seconds.
DROP_IN = "# Managed by ddp-play (role nfs_client)\n[Unit]\nStartLimitIntervalSec=0\n"


def with_recorded(mounts: Sequence[Mount], entries: Mapping[str, Any]) -> List[Mount]:
    """The mounts, and those whose line the role has written and that the inventory does not have any more.

    entries: of the role in the record. Mounts of which it has a line have that as `written`.
    """
    lines = mount_lines.recorded_beyond(entries, {mount["mountpoint"] for mount in mounts})
    return [*mount_lines.with_written(mounts, entries), *map(_of_line, lines)]


def _of_line(line: mount_lines.Line) -> Mount:
    server, _, path = line.source.partition(":/")
    row = {"server": server, "path": f"/{path}", "mountpoint": line.mountpoint, "options": line.options}
    return {**row, mount_lines.WRITTEN: line.text}


def lookups(mounts: Sequence[Mount]) -> Dict[str, List[str]]:
    """Read-only commands: the addresses of each server, and the first entry of each mount point."""
    first = ["-maxdepth", "1", "-mindepth", "1", "-print", "-quit"]
    servers = {f"server {mount['server']}": ["getent", "ahosts", mount["server"]] for mount in mounts}
    contents = {f"content {mount['mountpoint']}": ["find", mount["mountpoint"], *first] for mount in mounts}
    return {**servers, **contents}


def probes(mounts: Sequence[Mount], writer: str) -> Dict[str, List[str]]:
    """Commands that test whether a mount answers and whether `writer` may write to it; no writer, no such test.

    The first one mounts what systemd mounts at first use: statfs(2) does that, access(2) and stat(2) do not.
    """
    found = {}
    for path in (mount["mountpoint"] for mount in mounts):
        found[f"probe {path}"] = ["stat", "--file-system", path]
        if writer:
            found[f"write {path}"] = ["runuser", "-u", writer, "--", "test", "-w", path]
    return found


def decide(state: Mapping[str, Any], mounts: Sequence[Mount], options: Sequence[str], writer: str) -> Dict[str, Any]:
    """Decision on the wanted mounts. `options` are those of a mount that names none.

    `own` are mounts whose server is the host itself, `loops` the mount points of those that it would mount, and
    `wanted` all others; `ours` are those mounts whose line of fstab is as the role wrote it, and `free` those
    and the ones without a mount, whose mount points may go.
    `unresolved` (servers) and `occupied` (mount points with files) cannot work. `not_mounted` and
    `not_in_fstab` differ from the wanted state, `pending` are both. `replaced` are those of `not_mounted` under whose
    mount point another NFS mount is, `mounted` those of `ours` under whose mount point any NFS mount is. `silent` are
    the probes that failed.
    """
    commands = state["commands"]
    own = _own(commands, mounts)
    wanted = _unique([mount for mount in mounts if mount not in own])
    there = mounted(commands)
    targets = {row["target"] for row in there}
    not_mounted = [mount for mount in wanted if not _is_mounted(mount, there, mount.get("options", options))]
    fstab = state["files"][FSTAB]["content"]
    not_in_fstab = [mount for mount in wanted if fstab_line(mount, options) not in fstab.splitlines()]
    ours = [mount for mount in mounts if mount_lines.is_as_written(mount, fstab)]
    return {
        "own": own,
        "loops": [mount["mountpoint"] for mount in own if mount["path"] != mount["mountpoint"]],
        "wanted": wanted,
        "ours": ours,
        "free": [mount for mount in mounts if mount in ours or mount["mountpoint"] not in targets],
        "unresolved": _unique([m["server"] for m in mounts if _answer(commands, m)["rc"] != 0]),
        "occupied": [m["mountpoint"] for m in wanted if m["mountpoint"] not in targets and _has_files(commands, m)],
        "mounted": [mount for mount in ours if mount["mountpoint"] in targets],
        "not_mounted": not_mounted,
        "not_in_fstab": not_in_fstab,
        "replaced": [mount for mount in not_mounted if mount["mountpoint"] in targets],
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


def mounted(commands: Mapping[str, Any]) -> List[Mapping[str, str]]:
    """Rows of `findmnt --json`, which prints nothing where nothing is mounted."""
    rows: List[Mapping[str, str]] = json.loads(commands["mounted"]["stdout"] or "{}").get("filesystems", [])
    return rows


def _is_mounted(mount: Mount, there: Sequence[Mapping[str, str]], options: Sequence[str]) -> bool:
    source = f"{mount['server']}:{mount['path']}"
    rows = [row for row in there if row["target"] == mount["mountpoint"] and row["source"] == source]
    reported = {option for option in options if REPORTED.search(option)}
    return bool(rows) and reported <= set(rows[-1]["options"].split(","))


def fstab_line(mount: Mount, options: Sequence[str]) -> str:
    """The line of a mount, without its newline."""
    joined = ",".join(mount.get("options", options))
    return f"{mount['server']}:{mount['path']} {mount['mountpoint']} nfs {joined} 0 0"


def fstab_lines(mounts: Sequence[Mount], options: Sequence[str]) -> List[Dict[str, str]]:
    """Lines of mounts for ddp.play.fstab."""
    return [{"mountpoint": mount["mountpoint"], "line": fstab_line(mount, options)} for mount in mounts]


def unit_name(path: str, suffix: str) -> str:
    """Name of the unit that systemd makes of a mount point, as `systemd-escape --path --suffix` prints it."""
    plain = "/".join(part for part in path.split("/") if part)
    letters = ["-" if letter == "/" else _escaped(letter, number) for number, letter in enumerate(plain)]
    return f"{''.join(letters) or '-'}.{suffix}"


def _escaped(letter: str, number: int) -> str:
    if re.match(r"[A-Za-z0-9:_.]", letter) and not (letter == "." and number == 0):
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode())


def drop_ins(mounts: Sequence[Mount], options: Sequence[str]) -> List[Dict[str, str]]:
    """Files for ddp.play.files that take the start limit off the units of mounts at first use."""
    units = [unit_name(m["mountpoint"], "mount") for m in mounts if AUTOMOUNT in m.get("options", options)]
    return [{"path": f"/etc/systemd/system/{unit}.d/ddp-play.conf", "content": DROP_IN} for unit in units]


def forgotten(found: Sequence[str], fstab: str) -> List[Dict[str, str]]:
    """Entries for ddp.play.files that remove what is left of mounts that never worked and are not in the inventory.

    found: paths of files that take the start limit off units; fstab: its text. A mount that fstab has is none of these.
    """
    rows = [line.split() for line in fstab.splitlines() if not line.lstrip().startswith("#")]
    kept = {unit_name(mount_lines.unescaped(row[1]), "mount") for row in rows if len(row) > 1}
    entries: List[Dict[str, str]] = []
    for path in found:
        unit, _, ending = path.split("/")[-2].rpartition(".")
        if unit.endswith(".mount") and ending == "d" and unit not in kept:
            mountpoint = _mount_point(unit[: -len(".mount")])
            entries += [{"path": path, "state": "absent"}, {"path": mountpoint, "state": "absent"}]
    return entries


def _mount_point(name: str) -> str:
    """The path of which systemd has made this name, without its suffix."""
    return "/" + re.sub(r"(?:\\x[0-9a-f]{2})+", _letters, name.replace("-", "/"))


def _letters(escaped: "re.Match[str]") -> str:
    return bytes.fromhex(escaped[0].replace("\\x", "")).decode(errors="replace")


def automounts(mounts: Sequence[Mount]) -> List[str]:
    """Automount units of mounts, whether they exist or not."""
    return [unit_name(mount["mountpoint"], "automount") for mount in mounts]


def active_automounts(state: Mapping[str, Any], mounts: Sequence[Mount]) -> List[str]:
    """Automount units of mounts that wait for the first use of their mount, or have had it."""
    return [name for name in automounts(mounts) if state["units"][name]["active"] == "active"]


def directories(mounts: Sequence[Mount], state: str) -> List[Dict[str, str]]:
    """Mount points as entries for ddp.play.files: one that is absent goes if the role created it and it is empty."""
    return [{"path": mount["mountpoint"], "state": state} for mount in mounts]


def gone(paths: Sequence[str]) -> List[Dict[str, str]]:
    """Files to remove, as entries for ddp.play.files."""
    return [{"path": path, "state": "absent"} for path in paths]


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
        return {
            "nfs_client_with_recorded": with_recorded,
            "nfs_client_lookups": lookups,
            "nfs_client_probes": probes,
            "nfs_client_decision": decide,
            "nfs_client_fstab_lines": fstab_lines,
            "nfs_client_drop_ins": drop_ins,
            "nfs_client_forgotten": forgotten,
            "nfs_client_automounts": automounts,
            "nfs_client_active_automounts": active_automounts,
            "nfs_client_directories": directories,
            "nfs_client_gone": gone,
        }
