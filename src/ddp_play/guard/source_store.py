"""Store of source pieces in this user's state directory: each has the name of its SHA-256.

Nothing in it is believed: ranks may run as this user and write here. A piece is hashed each time it is read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
import time
from typing import TYPE_CHECKING, Iterator, List, Optional, Tuple

from .run_directory import atomic_write, base_dir

if TYPE_CHECKING:
    from pathlib import Path

OBJECTS = "objects"
# Size of the store: the smaller of these, the second as a part of the file system.
CAP_BYTES, CAP_PART = 10 << 30, 0.1
# An eviction goes below the cap by this factor, so that not each run evicts.
EVICT_TO = 0.9
# A piece that was used so lately is not evicted: a preparation may need it.
IN_USE_S = 3600.0
# Space that the store leaves free, besides what the source itself needs.
SPARE_BYTES = 256 << 20
# A piece, or one that was being written when its process ended. Nothing else is ever removed.
NAME = re.compile(r"[0-9a-f]{64}|\.[0-9a-f]{64}\.[0-9a-f]{16}")


class SourceStore:
    """Pieces of sources of earlier runs."""

    def __init__(self, root: Optional[Path] = None) -> None:
        self.root = root or base_dir() / OBJECTS

    def path(self, digest: str) -> Path:
        """File of a piece."""
        return self.root / digest[:2] / digest

    def has(self, digest: str, size: int) -> bool:
        """Whether there is a file for this piece. Marks it as used; whether its content is right shows `read`."""
        path = str(self.path(digest))
        try:
            found = os.lstat(path)
            if not _usable(found, size):
                return False
            os.utime(path, follow_symlinks=False)
        except OSError:
            return False
        return True

    def read(self, digest: str, size: int) -> Optional[bytes]:
        """A piece; None if it is missing. One whose content is not of this hash is removed."""
        path = str(self.path(digest))
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                data = file.read(size + 1) if _usable(os.fstat(file.fileno()), size) else b""
        except OSError:
            data = b""
        if hashlib.sha256(data).hexdigest() == digest:
            return data
        with contextlib.suppress(OSError):
            os.unlink(path)
        return None

    def add(self, digest: str, data: bytes) -> bool:
        """Keep a piece whose hash was checked; False if that is not possible, which costs no run anything."""
        path = self.path(digest)
        try:
            for directory in (self.root, path.parent):
                directory.mkdir(exist_ok=True, mode=0o700)
            atomic_write(path, data)
        except OSError:
            return False
        return True

    def has_space(self, total: int) -> bool:
        """Whether a source of `total` bytes may be kept here: within the cap, and with space for its tree besides.

        The run needs its archive and its tree at the same time, the store a third copy.
        """
        try:
            above = next(path for path in (self.root, *self.root.parents) if path.is_dir())
            found = os.statvfs(str(above))
        except (OSError, StopIteration):
            return False
        return total <= self.cap() and found.f_bavail * found.f_frsize >= 3 * total + SPARE_BYTES

    def cap(self) -> int:
        """Size in bytes that the store may have."""
        try:
            found = os.statvfs(str(self.root.parent))
        except OSError:
            return 0
        return min(CAP_BYTES, int(found.f_blocks * found.f_frsize * CAP_PART))

    def files(self) -> List[Tuple[float, int, str]]:
        """(last use, size in bytes, path) of every file, the one that was not used for longest first."""
        return sorted(_files(str(self.root)))

    def size(self) -> int:
        """Bytes of all pieces."""
        return sum(size for _, size, _ in self.files())

    def clear(self) -> List[str]:
        """Remove all pieces. Returns what could not be removed. A preparation that misses one asks for it again."""
        left = []
        for _, _, path in self.files():
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                left.append("%s: %s" % (path, error.strerror))
        return left

    def evict(self) -> None:
        """Remove pieces that an ended process left unfinished, and what was not used for longest above the cap."""
        cap, now, files = self.cap(), time.time(), []
        for used, size, path in self.files():
            if os.path.basename(path).startswith(".") and now - used >= IN_USE_S:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            else:
                files.append((used, size, path))
        total = sum(size for _, size, _ in files)
        if total <= cap:
            return
        for used, size, path in files:
            if total <= cap * EVICT_TO or now - used < IN_USE_S:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size


def _usable(found: os.stat_result, size: int) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_size == size


def _files(root: str) -> Iterator[Tuple[float, int, str]]:
    for where, _, names in os.walk(root):
        for name in filter(NAME.fullmatch, names):
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(where, name))
                yield found.st_mtime, found.st_size, os.path.join(where, name)
