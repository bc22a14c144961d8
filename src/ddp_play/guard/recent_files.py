"""Files of a run in /tmp and /var/tmp, where systemd-tmpfiles removes what is 10 or 30 days old.

It skips a locked directory with all that is in it (tmpfiles.d(5)), so the guard locks that of its attempt. Files of the
ranks elsewhere in /tmp get new times instead.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Iterator, List, Optional

from .untrusted_paths import locate, touch

EVERY_S = 3600.0
AGED = ("/tmp", "/var/tmp")


@contextlib.contextmanager
def not_aged(directory: Path) -> Iterator[None]:
    """Keep systemd-tmpfiles out of this directory. It takes an exclusive lock of each directory that it enters."""
    fd = os.open(str(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_SH)  # only this user, root and systemd-tmpfiles can open the directory
        yield
    finally:
        os.close(fd)


class RecentFiles:
    """Keeps those of these paths that are in a directory of temporary files; the others are left alone."""

    def __init__(self, paths: List[str]) -> None:
        self.paths = [Path(path) for path in paths if any(Path(top) in Path(path).parents for top in AGED)]
        self._renewed: Optional[float] = None

    def renew(self) -> None:
        """Set the times of the files to now, at most once in EVERY_S."""
        if not self.paths or (self._renewed is not None and time.monotonic() - self._renewed < EVERY_S):
            return
        self._renewed = time.monotonic()
        for path in self.paths:
            with contextlib.suppress(OSError):  # no rank has made it yet, or it is not this user's
                touch(locate(path))
