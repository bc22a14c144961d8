"""Check that the shared directory is one file system with working locks: torch's FileStore uses flock(2)."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from typing import IO, TYPE_CHECKING, Any

from .tree_removal import remove
from .untrusted_paths import locate, new_file, open_file

if TYPE_CHECKING:
    from pathlib import Path

# An NFS client may have a cached listing of the directory.
PATIENCE_S = 5.0


class Held:
    """A locked file with `word` in it, until `close`. Raises OSError."""

    def __init__(self, path: Path, word: str) -> None:
        self.path = path
        self._handle: IO[Any] = new_file(locate(path))
        try:
            self._handle.write(word.encode())
            self._handle.flush()
            os.fsync(self._handle.fileno())
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        """Release the lock and remove the file."""
        self._handle.close()
        with contextlib.suppress(FileNotFoundError):
            remove(locate(self.path))


def problem(path: Path, word: str) -> str:
    """What is wrong with a file that another host holds locked, seen from this host; empty if nothing."""
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.lexists(str(path)):
        if time.monotonic() > deadline:
            return "it does not see the file %s of another host: not the same file system on both (see findmnt)" % path
        if path.parent.is_dir():
            os.listdir(str(path.parent))
        time.sleep(0.1)
    try:
        handle = open_file(locate(path), writable=True)
    except OSError as error:
        return "%s: %s" % (path, error.strerror)
    with handle:
        if handle.read(len(word) + 1) != word.encode():
            return "%s has other content here: not the same file system on both hosts (see findmnt)" % path
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ""
        except OSError as error:
            return "cannot lock on it: %s" % error.strerror
    return "a lock that another host holds is not seen (mounted with nolock or local_lock?)"
