"""Decision whether an attempt that nobody handles may have files on this host that no controller has collected."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict

from .protocol import rank_dir_name
from .run_directory import HostRun, read_json


def may_be_uncollected(place: HostRun, state: Dict[str, Any]) -> bool:
    """Whether ranks were started here, or a cleanup kept what it could not collect. `state`: the guard's last one."""
    if place.logs.exists() or state.get("phase") == "prepared":
        # Without a state the preparation was cut off, or the state was lost with the host's power. A guard whose disk
        # is full cannot store that it has started its ranks.
        return state.get("phase", "prepared") != "prepared" or _has_output(place)
    run_paths = (read_json(place.spec) or {}).get("run_paths") or []
    if state:  # a cleanup removed the logs, but not all ranks or containers
        run_paths = [path for path in run_paths if os.path.isdir(path)]
    return place.src.is_dir() or bool(run_paths) or any(place.root.glob(rank_dir_name("*")))


def _has_output(place: HostRun) -> bool:
    with contextlib.suppress(OSError):
        return any(log.stat().st_size > 0 for log in place.logs.iterdir())
    return False
