"""A channel as a step of an allocation: the guard ends with the step that started it, so the step stays that long."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from . import guard_link

if TYPE_CHECKING:
    from typing import Callable, Iterator, Optional

    from .run_directory import HostRun

# The route of a channel sets it. It is not inherited by ranks, whose environment is the plan's.
STEP_ENV = "DDP_PLAY_STEP"
TICK_S = 0.2


def in_step() -> bool:
    """Is this process in a step of an allocation, such as one of Slurm?"""
    return os.environ.get(STEP_ENV) == "1"


@contextlib.contextmanager
def stay(place: "Callable[[], Optional[HostRun]]") -> "Iterator[None]":
    """A channel in a step: SIGTERM does not end it, and it ends after the guard of `place`. Elsewhere nothing changes.

    At the end of a job Slurm sends SIGTERM to all of a step, and the controller still has to stop the ranks. A handler
    is not inherited by the guard and the ranks, unlike an ignored signal. With a step a cgroup kills the step's guard.
    """
    if in_step():
        signal.signal(signal.SIGTERM, _pass)
    try:
        yield
    finally:
        run = place() if in_step() else None
        while run is not None and guard_link.look(run)[1]:
            time.sleep(TICK_S)


def _pass(_signum: int, _frame: Any) -> None:
    pass
