"""Locks on the files of a run, or of what works for runs. The kernel releases the lock of a process that dies."""

from __future__ import annotations

import fcntl
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

# Whoever looks whether a lock is held shares it for a moment, which is no reason to give up for whoever wants it.
LOOKED_AT_S = 1.0
TICK_S = 0.02


def is_locked(path: Path) -> bool:
    """Does a process hold this lock? Those who look do not see each other: they share it, also on NFS and read-only."""
    try:
        handle = path.open()
    except OSError:  # not there, or another user's run
        return False
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def lock(handle: IO[str], *, within_s: float = LOOKED_AT_S) -> None:
    """Lock an open file until it is closed. Raises OSError if another process holds the lock all that time."""
    until = time.monotonic() + within_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(TICK_S)
        else:
            return
