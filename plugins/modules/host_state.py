#!/usr/bin/python
"""Read the state of a host for a role in one execution: files, units, packages, commands."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import host, host_record, occupants

DOCUMENTATION = r"""
module: host_state
short_description: Read files, units, packages and read-only commands in one execution
description:
  - An unchanged module task over eight hosts takes seconds, so a role reads everything in one task.
  - Changes nothing. Its commands must only read.
options:
  files:
    description: Paths to read.
    type: list
    elements: path
    default: []
  content:
    description: Paths whose text is returned too (64 KiB at most each).
    type: list
    elements: path
    default: []
  units:
    description: systemd units, as C(systemctl show) names them.
    type: list
    elements: str
    default: []
  packages:
    description: Package names to look up with dpkg or rpm.
    type: list
    elements: str
    default: []
  holds:
    description: Report which of I(packages) the package manager holds (dpkg) or locks to a version (dnf).
    type: bool
    default: false
  commands:
    description: A name for each command (a list of arguments). A missing program gives 127.
    type: dict
    default: {}
  timeout_s:
    description: Time limit of one command in seconds; a command that takes longer gives 124.
    type: int
    default: 30
  occupants:
    description:
      - Look for what a restart, a reload or a reboot would hurt. Any running container and any rank counts,
        and so does an engine that does not answer within ten seconds.
    type: bool
    default: false
  settled:
    description:
      - Conditions as C(that) of C(ansible.builtin.assert) takes them, which may use the registered result of this task.
        The controller evaluates them in the same task; whether all hold is in the result. A role ends there on a host
        on which it has nothing to do or to say.
    type: list
    elements: raw
    default: []
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Preflight | Read the state of the engine
  ddp.play.host_state:
    files: [/etc/docker/daemon.json]
    units: [docker.service]
    packages: [docker-ce, docker-ce-cli]
    commands:
      holds: [apt-mark, showhold]
    occupants: true
  register: __docker_engine_state
"""

RETURN = r"""
files:
  description:
    - By path - C(type) (file, directory, link, other, absent), C(mode), C(uid), C(gid), C(size), C(mtime),
      C(content).
  returned: always
  type: dict
units:
  description: By unit - C(load), C(active), C(sub), C(enabled), C(need_reload), C(result), and
    C(started), when its main process was started (seconds since 1970 by the clock as it is now, 0 when none runs).
  returned: always
  type: dict
packages:
  description: By name - the installed version, empty if it is not installed.
  returned: always
  type: dict
held:
  description: The installed ones of I(packages) that are on hold. Empty unless I(holds) is true.
  returned: always
  type: list
  elements: str
commands:
  description: By name - C(rc), C(stdout), C(stderr).
  returned: always
  type: dict
occupants:
  description:
    - C(reasons), why the host is busy, a clause each, empty if it is not busy.
    - C(engine), one of C(running), C(silent) (it hangs), C(stopped), C(absent), C(unknown).
    - C(containers), every running one with C(name) and C(image), except those of the roles' own systemd units.
    - C(guards), the directories of runs whose ranks are on this host.
    - Empty unless I(occupants) is true.
  returned: always
  type: dict
settled:
  description: Whether all conditions of I(settled) hold; false without conditions, and if one cannot be evaluated.
  returned: always
  type: bool
"""


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


def main() -> None:
    """Return the requested state. A missing file, unit or program is a result, not a failure."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "path", "default": []},
            "content": {"type": "list", "elements": "path", "default": []},
            "units": {"type": "list", "elements": "str", "default": []},
            "packages": {"type": "list", "elements": "str", "default": []},
            "holds": {"type": "bool", "default": False},
            "commands": {"type": "dict", "default": {}},
            "timeout_s": {"type": "int", "default": 30},
            "occupants": {"type": "bool", "default": False},
            "settled": {"type": "list", "elements": "raw", "default": []},  # plugins/action/host_state.py
        },
        supports_check_mode=True,
    )
    want = module.params
    paths = list(dict.fromkeys(want["files"] + want["content"]))
    module.exit_json(
        changed=False,
        files={path: read_file(path, path in want["content"]) for path in paths},
        units=read_units(want["units"], want["timeout_s"]),
        packages=read_packages(want["packages"], want["timeout_s"]),
        held=read_holds(want["packages"]) if want["holds"] else [],
        commands={name: run(argv, want["timeout_s"]) for name, argv in want["commands"].items()},
        occupants=occupants.read() if want["occupants"] else {},
        is_new=host_record.is_new(host_record.RECORD),
    )


if __name__ == "__main__":
    main()
