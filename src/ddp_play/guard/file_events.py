"""News of files in some directories from the kernel (inotify(7)), so that nobody has to look at files that rest."""

from __future__ import annotations

import contextlib
import os
from typing import Iterable, List

IN_MODIFY, IN_MOVED_TO, IN_CREATE = 0x2, 0x80, 0x100
IN_ONLYDIR, IN_DONT_FOLLOW = 0x1000000, 0x2000000


class FileEvents:
    """Readable when a program of this host has written to a file in one of the directories, or put one there."""

    def __init__(self, directories: Iterable[str]) -> None:
        """Raises OSError, for example if this user watches too much already."""
        import ctypes

        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        mask = IN_MODIFY | IN_MOVED_TO | IN_CREATE | IN_ONLYDIR | IN_DONT_FOLLOW
        for directory in directories:
            if libc.inotify_add_watch(self._fd, os.fsencode(directory), mask) < 0:
                self.close()
                raise OSError(ctypes.get_errno(), directory)

    def descriptors(self) -> List[int]:
        """What to wait on."""
        return [self._fd]

    def clear(self) -> None:
        """Forget the news until now; call it before looking at the files."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(16):  # of files that are written all the time there is always more
                os.read(self._fd, 1 << 16)

    def close(self) -> None:
        """End the watch."""
        os.close(self._fd)
