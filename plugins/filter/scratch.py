"""Decision of role scratch: file systems to make and to mount, and devices and mount points that are refused."""

from __future__ import annotations

import hashlib
from typing import Any, Callable, Dict, List, Mapping, Sequence

from ansible_collections.ddp.play.plugins.module_utils import block_devices, mount_lines

BY_ID = "/dev/disk/by-id/"
FSTAB = "/etc/fstab"
PACKAGES = {"ext4": "e2fsprogs", "xfs": "xfsprogs"}
DEFAULTS = {"fstype": "ext4", "mode": "1777", "owner": "root", "group": "root"}
FileSystem = Mapping[str, Any]


def label(mountpoint: str) -> str:
    """Label of the file system of a mount point; 12 characters, as many as xfs has."""
    return "ddp-" + hashlib.sha256(mountpoint.rstrip("/").encode()).hexdigest()[:8]


def complete(filesystems: Sequence[FileSystem], options: Sequence[str]) -> List[Dict[str, Any]]:
    """The file systems with defaults, label and line of fstab. `options` are those of one that names none."""
    return [_complete(row, options) for row in filesystems]


def _complete(row: FileSystem, options: Sequence[str]) -> Dict[str, Any]:
    given = {key: value for key, value in row.items() if value not in (None, "", [])}
    full: Dict[str, Any] = {**DEFAULTS, "options": list(options), **given, "label": label(row["mountpoint"])}
    check = 2 if full["fstype"] == "ext4" else 0
    line = f"LABEL={full['label']} {full['mountpoint']} {full['fstype']} {','.join(full['options'])} 0 {check}"
    return {**full, "line": line}


def with_recorded(filesystems: Sequence[FileSystem], entries: Mapping[str, Any]) -> List[FileSystem]:
    """Complete file systems, and those whose line the role has written and that the inventory does not have any more.

    entries: of the role in the record. The others have `recorded` and are found by their label. All of which it has a
    line have that as `written`.
    """
    lines = mount_lines.recorded_beyond(entries, {row["mountpoint"] for row in filesystems})
    found: List[FileSystem] = [*mount_lines.with_written([*filesystems, *map(_of_line, lines)], entries)]
    return found


def _of_line(line: mount_lines.Line) -> FileSystem:
    name = line.source.partition("=")[2]
    row = {"device": f"/dev/disk/by-label/{name}", "label": name, "line": line.text, "recorded": True}
    return {**DEFAULTS, **row, "mountpoint": line.mountpoint, "fstype": line.fstype, "options": line.options}


def commands(filesystems: Sequence[FileSystem]) -> Dict[str, List[str]]:
    """Read-only commands: each device, the first entry of each mount point, and its mode and owner."""
    found = {}
    for row in filesystems:
        for name, argv in block_devices.commands(row["device"]).items():
            found[f"{name} {row['device']}"] = argv
        path = row["mountpoint"]
        found[f"content {path}"] = ["find", path, "-maxdepth", "1", "-mindepth", "1", "-print", "-quit"]
        found[f"owner {path}"] = ["stat", "--format", "%a %U %G", path]
    return found


def packages(filesystems: Sequence[FileSystem]) -> List[str]:
    """Packages with the programs of the file systems."""
    return sorted({PACKAGES[row["fstype"]] for row in filesystems})


def decide(state: Mapping[str, Any], filesystems: Sequence[FileSystem]) -> Dict[str, List[Any]]:
    """Decision on complete file systems.

    `problems` are refused. `to_make` have an empty device; `to_mount` are not mounted, `to_write` not in fstab,
    `to_own` have another mode or owner; `changes` names all of these. `mounted` are at their mount point, and
    `to_unmount` those of them whose line is as the role wrote it. `ours` have their label, and `named` are those of
    them that the inventory has and that nothing keeps mounted.
    """
    answers = {row["device"]: _answers(state, row["device"]) for row in filesystems}
    judged = {
        row["device"]: block_devices.judge(answers[row["device"]], row["fstype"], row["label"]) for row in filesystems
    }
    fstab = state["files"][FSTAB]["content"]
    lines = fstab.splitlines()
    mounted = [row for row in filesystems if row["mountpoint"] in block_devices.mounts(answers[row["device"]])]
    ours = [row for row in filesystems if judged[row["device"]][0] == block_devices.OURS]
    found: Dict[str, List[Any]] = {
        "to_make": [row for row in filesystems if judged[row["device"]][0] == block_devices.EMPTY],
        "to_mount": [row for row in filesystems if row not in mounted],
        "to_write": [row for row in filesystems if row["line"] not in lines],
        "to_own": [row for row in filesystems if row not in mounted or _owner(state, row) != _wanted_owner(row)],
    }
    words = {"to_make": "file system on {device}", "to_mount": "mount {mountpoint}", "to_write": "line of {mountpoint}"}
    words["to_own"] = "mode and owner of {mountpoint}"
    names = [text.format(**row) for key, text in words.items() for row in found[key]]
    problems = [f"{device} {reason}" for device, (_, reason) in judged.items() if reason]
    problems += _twice(filesystems, answers) + _occupied(state, [row for row in filesystems if row not in mounted])
    problems += [f"{device} is no path in {BY_ID}" for device in judged if not device.startswith(BY_ID)]
    to_unmount = [row for row in mounted if mount_lines.is_as_written(row, fstab)]
    free = [row for row in ours if row not in mounted or row in to_unmount]
    return {
        **found,
        "problems": problems,
        "changes": names,
        "mounted": mounted,
        "ours": ours,
        "named": [row for row in free if not row.get("recorded")],
        "to_unmount": to_unmount,
    }


def directories(filesystems: Sequence[FileSystem], state: str) -> List[Dict[str, str]]:
    """Mount points as entries for ddp.play.files: with mode and owner, or absent."""
    if state == "absent":
        return [{"path": row["mountpoint"], "state": state} for row in filesystems]
    return [
        {"path": row["mountpoint"], "state": state, **{key: row[key] for key in ("mode", "owner", "group")}}
        for row in filesystems
    ]


def lines(filesystems: Sequence[FileSystem]) -> List[Dict[str, str]]:
    """Entries for ddp.play.fstab."""
    return [{"mountpoint": row["mountpoint"], "line": row["line"]} for row in filesystems]


def _answers(state: Mapping[str, Any], device: str) -> Dict[str, Any]:
    return {name: state["commands"][f"{name} {device}"] for name in block_devices.commands(device)}


def _twice(filesystems: Sequence[FileSystem], answers: Mapping[str, block_devices.Answers]) -> List[str]:
    devices = [block_devices.kernel_name(answers[row["device"]]) for row in filesystems]
    paths = [row["mountpoint"] for row in filesystems]
    twice = sorted({name for names in (devices, paths) for name in names if name and names.count(name) > 1})
    return [f"{name} is named twice" for name in twice]


def _occupied(state: Mapping[str, Any], filesystems: Sequence[FileSystem]) -> List[str]:
    paths = [row["mountpoint"] for row in filesystems]
    return [
        f"{path} is not empty (move its files away first)"
        for path in paths
        if state["commands"][f"content {path}"]["stdout"]
    ]


def _owner(state: Mapping[str, Any], row: FileSystem) -> List[str]:
    """Mode, owner and group of the mount point, as stat prints them."""
    return str(state["commands"][f"owner {row['mountpoint']}"]["stdout"]).split()


def _wanted_owner(row: FileSystem) -> List[str]:
    return [str(row["mode"]).lstrip("0") or "0", row["owner"], row["group"]]


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "scratch_complete": complete,
            "scratch_with_recorded": with_recorded,
            "scratch_commands": commands,
            "scratch_packages": packages,
            "scratch_decision": decide,
            "scratch_directories": directories,
            "scratch_lines": lines,
        }
