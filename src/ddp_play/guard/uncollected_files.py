"""Decision whether an attempt that nobody handles may have files on this host that no controller has collected."""

from __future__ import annotations

import contextlib
from typing import Any, Dict

from .run_directory import HostRun, read_json


def may_be_uncollected(place: HostRun, state: Dict[str, Any]) -> bool:
    """Whether ranks were started here, or a cleanup kept the working directory. `state`: the guard's last one."""
    if state:
        # a guard whose disk is full cannot store that it has started its ranks
        return state.get("phase") != "prepared" or _has_output(place)
    if place.logs.exists():
        # The preparation was cut off, or the state was lost with the host's power.
        return _has_output(place)
    return place.src.is_dir() or bool((read_json(place.spec) or {}).get("run_paths"))


def _has_output(place: HostRun) -> bool:
    with contextlib.suppress(OSError):
        return any(log.stat().st_size > 0 for log in place.logs.iterdir())
    return False
