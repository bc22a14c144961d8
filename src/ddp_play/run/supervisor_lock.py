"""Lock of a run on its controller: one process supervises a run at a time."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ddp_play.bundle import run_locks
from ddp_play.errors import Busy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.bundle.paths import RunPaths


@contextlib.contextmanager
def supervisor_lock(paths: RunPaths) -> Iterator[None]:
    """Hold the run's lock. Busy when another process holds it; the kernel releases the lock of a process that dies."""
    with paths.lock.open("a") as handle:
        try:
            run_locks.lock(handle)
        except OSError:
            raise Busy(
                f"run {paths.run_id} is supervised by another process",
                hint=f"follow it with ddp-play attach {paths.run_id}",
            ) from None
        yield
