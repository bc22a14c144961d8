"""Locks on the files of a run, or of what works for runs. The kernel releases the lock of a process that dies."""

from __future__ import annotations

import fcntl
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

# Whoever looks whether a lock is held takes it for a moment, which is nobody's reason to give up.
LOOKED_AT_S = 1.0
TICK_S = 0.02


def is_locked(path: Path) -> bool:
    """Does a process hold this lock?"""
    if not path.exists():
        return False
    try:
        handle, lock = path.open("a"), fcntl.LOCK_EX  # NFS takes an exclusive lock only of a file open for writing
    except OSError:  # a read-only disk, or another user's run
        try:
            handle, lock = path.open(), fcntl.LOCK_SH
        except OSError:
            return False
    with handle:
        try:
            fcntl.flock(handle, lock | fcntl.LOCK_NB)
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
