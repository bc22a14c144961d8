"""Room on the disk that holds a run's bundle: a reserve for its last words, and whether there is space again."""

from __future__ import annotations

import contextlib
import errno
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

RESERVE_BYTES = 1024 * 1024


def is_full(error: OSError) -> bool:
    """Does this error say that nothing more fits?"""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


class DiskRoom:
    """The reserve is a file that is given up when the disk is full, so that how the run ended can still be written."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._reserve = root / ".reserve"
        self.full = False

    def reserve(self) -> None:
        """Set the reserve aside, where there is room for it."""
        with contextlib.suppress(OSError):
            self._reserve.write_bytes(bytes(RESERVE_BYTES))

    def give_up(self) -> None:
        """Nothing fits any more: free the reserve for run.json and the events."""
        self.full = True
        self.release()

    def release(self) -> None:
        """Take the reserve away; a finished bundle has none."""
        with contextlib.suppress(OSError):
            self._reserve.unlink()

    def is_back(self) -> bool:
        """Is there room again? Then a new reserve is set aside."""
        if self.full and shutil.disk_usage(self._root).free > 3 * RESERVE_BYTES:
            self.full = False
            self.reserve()
            return True
        return False
