"""Running guards of all users on this host, found by their command lines."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict

from .run_directory import HostRun
from .untrusted_paths import Below, open_file

MAX_SPEC_BYTES, MAX_STATE_BYTES = 64 << 20, 4 << 20
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


def read_spec(place: HostRun, uid: int) -> Dict[str, Any]:
    """Spec of an attempt that a process of user `uid` names as its own; empty if the file is not that user's."""
    return _read(place, place.spec.name, uid, MAX_SPEC_BYTES)


def read_state(place: HostRun, uid: int) -> Dict[str, Any]:
    """State of such an attempt, from its file."""
    return _read(place, place.state.name, uid, MAX_STATE_BYTES)


def _read(place: HostRun, name: str, uid: int, max_bytes: int) -> Dict[str, Any]:
    try:
        with open_file(Below(place.root, (name,)), uid) as handle:
            value = json.loads(handle.read(max_bytes))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
