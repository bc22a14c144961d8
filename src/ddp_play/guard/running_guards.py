"""The guards that live on this host, whoever started them: their command lines say which runs they own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict

from .run_files import HostRun


def guards() -> Dict[int, HostRun]:
    """pid -> the attempt that this guard owns."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            words = Path("/proc", name, "cmdline").read_bytes().split(b"\0")[:-1]
        except OSError:
            continue
        if len(words) > 2 and words[-2] == b"guard" and words[-3].endswith(b".pyz"):
            found[int(name)] = HostRun(Path(os.fsdecode(words[-1])))
    return found
