"""Running guards of all users on this host, found by their command lines."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict

from .run_directory import HostRun

PROGRAMS = (b".pyc", b".pyz")  # the second: guards of an earlier version


def guards() -> Dict[int, HostRun]:
    """Pid of each guard -> the attempt that it owns."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            continue
        if len(words) > 2 and words[-2] == b"guard" and words[-3].endswith(PROGRAMS):
            found[int(name)] = HostRun(Path(os.fsdecode(words[-1])))
    return found
