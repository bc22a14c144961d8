"""Leases as earlier versions of ddp-play hold them: locked files in a directory that every user may write to.

This version leases by sockets (docs/decisions/0004-leases-without-files.md). Where the directory exists, an earlier
version is or was in use on this host: its locks count as leases, and a lease of this version locks the file as well, so
that guards of both versions see each other. The directory is not trusted: nothing is written to a file, and no link is
followed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from pathlib import Path
from typing import Optional

from .state_directory import OF_HOST

# What earlier versions lease.
NAMES = ("gpu-", "port-", "slot-")
# Of ports, and of slots unless DDP_PLAY_HOST_DIR stands for a host.
DIRECTORY = Path("/tmp/ddp-play-leases")
FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
READABLE = 0o644


class LockedError(Exception):
    """An earlier version holds the lease."""


def directory_of(name: str) -> Path:
    """Directory in which an earlier version locks the file of this lease."""
    override = os.environ.get(OF_HOST)
    return Path(override, "leases") if override and not name.startswith("port-") else DIRECTORY


def lock(name: str) -> Optional[int]:
    """Lock the file of this lease; None where no earlier version needs that. Raises LockedError.

    The lock ends when the returned descriptor is closed.
    """
    fd = _open(name, create=True)
    if fd is not None:
        _lock_or_close(fd, fcntl.LOCK_SH)  # enough: earlier versions lock exclusively, this one by sockets
    return fd


def is_locked(name: str) -> bool:
    """Whether an earlier version holds this lease."""
    fd = _open(name)
    if fd is None:
        return False
    try:
        _lock_or_close(fd, fcntl.LOCK_SH)
    except LockedError:
        return True
    os.close(fd)
    return False


def holder_pid(name: str) -> int:
    """Process that the kernel lists for the lock; 0 if it lists none."""
    fd = _open(name)
    if fd is None:
        return 0
    try:
        inode = os.fstat(fd).st_ino
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return 0
    finally:
        os.close(fd)
    for words in (line.split() for line in lines):
        if words[1:2] == ["FLOCK"] and len(words) > 5 and words[5].rpartition(":")[2] == str(inode):
            return max(0, int(words[4]))
    return 0


def _open(name: str, *, create: bool = False) -> Optional[int]:
    """Open the file that an earlier version would lock; None if there is no such directory or no ordinary file."""
    if not name.startswith(NAMES):
        return None
    with contextlib.suppress(OSError):
        directory = os.open(str(directory_of(name)), os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if create:
                _create(name, directory)
            fd = os.open(name, FLAGS, dir_fd=directory)
        finally:
            os.close(directory)
        found = os.fstat(fd)
        if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
            return fd
        os.close(fd)
    return None


def _create(name: str, directory: int) -> None:
    """Create the empty file. An earlier version opens it for reading if it belongs to another user."""
    with contextlib.suppress(FileExistsError):
        fd = os.open(name, FLAGS | os.O_CREAT | os.O_EXCL, READABLE, dir_fd=directory)
        try:
            os.fchmod(fd, READABLE)  # whatever the umask is
        finally:
            os.close(fd)


def _lock_or_close(fd: int, how: int) -> None:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise LockedError from error
