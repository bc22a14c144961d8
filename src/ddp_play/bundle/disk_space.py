"""Disk space for a run's bundle: a reserve for the outcome, and the check whether there is space again."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import time
from typing import TYPE_CHECKING

from ddp_play.errors import DiskFull

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RESERVE_BYTES = 1024 * 1024
# What a run begins with: Ansible's files, the plan, the reserve.
LEAST_BYTES = 4 * RESERVE_BYTES
# Free space does not show quotas, so a trial file is written, at most this often.
TRIAL_S = 2.0


def is_full(error: OSError) -> bool:
    """Is this error a full disk or a used-up quota?"""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def refuse_full(directory: Path) -> None:
    """Raise DiskFull if a run could not even begin on the disk of this directory. A quota shows later."""
    free = shutil.disk_usage(directory).free
    if free < LEAST_BYTES:
        raise DiskFull(
            f"this machine has no space left for {directory}: {free / 1e6:.1f} MB are free, and a run begins with "
            f"{LEAST_BYTES / 1e6:.0f} MB; nothing was started",
            hint=f"free some space: df -h {shlex.quote(str(directory))}; "
            "export DDP_PLAY_HOME=DIRECTORY names another directory",
        )


@contextlib.contextmanager
def unless_full() -> Iterator[None]:
    """Context for a write that the run can do without: on a full disk the file is not written, and nothing fails."""
    try:
        yield
    except OSError as error:
        if not is_full(error):
            raise


class DiskSpace:
    """A reserve file that is deleted when the disk is full, so that run.json can still be written."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._reserve = root / ".reserve"
        self._tried = float("-inf")
        self.full = False

    def reserve(self) -> None:
        """Create the reserve, if there is space for it."""
        with contextlib.suppress(OSError):
            _allocate(self._reserve, RESERVE_BYTES)

    def give_up(self) -> None:
        """Record that the disk is full, and delete the reserve: its space is for run.json and the events."""
        self.full = True
        self.release()

    def release(self) -> None:
        """Delete the reserve; a finished bundle has none."""
        with contextlib.suppress(OSError):
            self._reserve.unlink()

    def recover(self) -> bool:
        """Create a new reserve if the disk was full and has space again; whether it is so."""
        if self.full and shutil.disk_usage(self._root).free > 3 * RESERVE_BYTES and self._takes_it():
            self.full = False
            self.reserve()
            return True
        return False

    def _takes_it(self) -> bool:
        """Whether the disk stores as much as was asked for: no quota is in the way."""
        if time.monotonic() - self._tried < TRIAL_S:
            return False
        self._tried = time.monotonic()
        trial = self._root / ".room"
        try:
            _allocate(trial, 3 * RESERVE_BYTES)
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                trial.unlink()
        return True


def _allocate(path: Path, num_bytes: int) -> None:
    """Write a file that a compressing file system cannot shrink. Raises OSError, also what only a sync reports."""
    with path.open("wb") as handle:
        handle.write(os.urandom(num_bytes))
        handle.flush()
        os.fsync(handle.fileno())
