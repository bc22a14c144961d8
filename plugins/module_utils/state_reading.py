"""State of a host for a role: files, units, packages, commands, occupants; changes nothing."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from ansible_collections.ddp.play.plugins.module_utils import (
    host,
    host_record,
    occupants,
    reboot_occupants,
)

ARGUMENTS: Dict[str, Dict[str, Any]] = {
    "files": {"type": "list", "elements": "path", "default": []},
    "content": {"type": "list", "elements": "path", "default": []},
    "units": {"type": "list", "elements": "str", "default": []},
    "packages": {"type": "list", "elements": "str", "default": []},
    "holds": {"type": "bool", "default": False},
    "role": {"type": "str", "default": ""},
    "commands": {"type": "dict", "default": {}},
    "timeout_s": {"type": "int", "default": 30},
    "occupants": {"type": "bool", "default": False},
    "reboot_occupants": {"type": "bool", "default": False},
}
MAX_CONTENT_BYTES = 65536
# Counted from boot: a time of day may have been recorded before the clock was set.
START_PROPERTY = "ExecMainStartTimestampMonotonic"
UNIT_PROPERTIES = {
    "LoadState": "load",
    "ActiveState": "active",
    "SubState": "sub",
    "UnitFileState": "enabled",
    "NeedDaemonReload": "need_reload",
    "Result": "result",
}


def file_type(mode: int) -> str:
    """Type of a file by its st_mode: link, directory, file or other."""
    for name, test in (("link", stat.S_ISLNK), ("directory", stat.S_ISDIR), ("file", stat.S_ISREG)):
        if test(mode):
            return name
    return "other"


def read_file(path: str, with_content: bool) -> Dict[str, Any]:
    """Type, attributes and, on request, at most 64 KiB of text of a path; links are not followed for the type."""
    try:
        info = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return {"type": "absent", "content": ""}
    found = {
        "type": file_type(info.st_mode),
        "mode": "%04o" % stat.S_IMODE(info.st_mode),
        "uid": info.st_uid,
        "gid": info.st_gid,
        "size": info.st_size,
        "mtime": info.st_mtime,
        "content": "",
    }
    if with_content and Path(path).is_file():
        with Path(path).open("rb") as stream:
            found["content"] = stream.read(MAX_CONTENT_BYTES).decode("utf-8", "replace")
    return found


def run(argv: Sequence[object], timeout_s: int) -> Dict[str, Any]:
    """rc, stdout and stderr of a command in the C locale; rc 127 if it cannot start, 124 after `timeout_s`."""
    rc, stdout, stderr = occupants.ask([str(word) for word in argv], timeout_s)
    return {"rc": rc, "stdout": stdout.strip(), "stderr": stderr}


def read_units(units: List[str], timeout_s: int) -> Dict[str, Dict[str, Any]]:
    """State of all units with one `systemctl show`, which prints them in order, separated by empty lines."""
    found: Dict[str, Dict[str, Any]] = {
        unit: dict(dict.fromkeys(UNIT_PROPERTIES.values(), ""), started=0.0) for unit in units
    }
    if not units:
        return found
    wanted = ",".join([*UNIT_PROPERTIES, START_PROPERTY])
    answer = run(["systemctl", "show", "--property=" + wanted, "--", *units], timeout_s)
    for index, block in enumerate(answer["stdout"].split("\n\n")[: len(units)]):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        for name, key in UNIT_PROPERTIES.items():
            found[units[index]][key] = values.get(name, "")
        if values.get("ActiveState") == "active":
            found[units[index]]["started"] = started(values.get(START_PROPERTY, ""))
    return found


def started(microseconds: str) -> float:
    """Start time by the current clock of an event that systemd dates from boot."""
    if not microseconds.isdigit() or not int(microseconds):
        return 0.0
    return time.time() - time.monotonic() + int(microseconds) / 1000000


def read_packages(names: List[str], timeout_s: int) -> Dict[str, str]:
    """Installed version of each name by dpkg or rpm; empty if it is not installed."""
    found = dict.fromkeys(names, "")
    if not names:
        return found
    if Path("/usr/bin/dpkg-query").exists():
        argv = ["dpkg-query", "--show", "--showformat=${db:Status-Status} ${Package} ${Version}\n"]
    else:
        argv = ["rpm", "--query", "--queryformat", "installed %{NAME} %{VERSION}-%{RELEASE}\n"]
    for line in run(argv + names, timeout_s)["stdout"].splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == "installed" and words[1] in found:
            found[words[1]] = words[2]
    return found


def read_holds(names: List[str]) -> List[str]:
    """Installed ones of these packages that dpkg holds or that dnf locks to their version."""
    return [name for name, found in host.packages(names, []).items() if found["held"]]


def gather(want: Dict[str, Any]) -> Dict[str, Any]:
    """The requested state. A missing file, unit or program is a result, not a failure."""
    return gather_all([want])[0]


def gather_all(wants: Sequence[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Several requested states at the same moment: what more than one of them asks is read once."""
    timeout_s = max((want["timeout_s"] for want in wants), default=0)
    units = read_units(union(wants, "units"), timeout_s)
    versions = read_packages(union(wants, "packages"), timeout_s)
    held = read_holds(union([want for want in wants if want["holds"]], "packages"))
    is_new = host_record.is_new(host_record.RECORD)
    busy = occupants.read() if any(want["occupants"] for want in wants) else {}
    late: List[str] = []
    if any(want["reboot_occupants"] for want in wants):
        late = reboot_occupants.reasons(occupants.PROC, occupants.ENGINE_TIMEOUT_S, gpus=False)
    answers: Dict[Tuple[str, ...], Dict[str, Any]] = {}
    return [
        {
            "files": {
                path: read_file(path, path in want["content"])
                for path in union([want], "files") + union([want], "content")
            },
            "units": {name: units[name] for name in want["units"]},
            "packages": {name: versions[name] for name in want["packages"]},
            "held": [name for name in held if want["holds"] and name in want["packages"]],
            "recorded": host_record.names(host_record.RECORD, want["role"], host_record.PACKAGES),
            "recorded_holds": host_record.names(host_record.RECORD, want["role"], host_record.HELD),
            "commands": {name: answer(argv, want["timeout_s"], answers) for name, argv in want["commands"].items()},
            "occupants": busy if want["occupants"] else {},
            "reboot_occupants": late if want["reboot_occupants"] else [],
            "is_new": is_new,
        }
        for want in wants
    ]


def union(wants: Sequence[Dict[str, Any]], key: str) -> List[str]:
    """What the wanted states list under a key, each once."""
    return list(dict.fromkeys(name for want in wants for name in want[key]))


def answer(argv: Sequence[object], timeout_s: int, known: Dict[Tuple[str, ...], Dict[str, Any]]) -> Dict[str, Any]:
    """The result of a command, which runs only if it is not among the known ones."""
    words = (str(timeout_s), *map(str, argv))
    if words not in known:
        known[words] = run(argv, timeout_s)
    return known[words]
