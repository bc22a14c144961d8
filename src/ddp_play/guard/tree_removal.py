"""Removal of what ranks have written: no link is followed, however a tree is nested, closed to its owner, or changed.

Directories are entered relative to an open one, as in `untrusted_paths`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING, Iterator

from .untrusted_paths import LIST, PATH, Below, directory

if TYPE_CHECKING:
    from pathlib import Path

# Passes over a directory whose content is being removed; a nested tree needs one per level.
MAX_PASSES = 20000


def remove(below: Below) -> None:
    """Remove a file, a link or a whole directory, never what a link leads to. Raises OSError."""
    with directory(below.parent) as parent, _naming(below.path):
        if not _is_directory(parent, below.name):
            os.unlink(below.name, dir_fd=parent)
            return
        with _opened(parent, below.name) as top:
            _empty(top, below.path)
        os.rmdir(below.name, dir_fd=parent)


def _is_directory(fd: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)


@contextlib.contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors name the whole path."""
    try:
        yield
    except OSError as error:
        if os.path.isabs(str(error.filename)):  # one that is further inside
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


@contextlib.contextmanager
def _opened(fd: int, name: str) -> Iterator[int]:
    """Descriptor of a directory to list and empty."""
    _open_to_owner(fd, name)
    inside = os.open(name, LIST, dir_fd=fd)
    try:
        yield inside
    finally:
        os.close(inside)


def _open_to_owner(fd: int, name: str) -> None:
    """Let this user read, change and enter its directory, which a rank may have closed. Raises OSError."""
    place = os.open(name, PATH | os.O_NOFOLLOW, dir_fd=fd)
    try:
        found = os.fstat(place)
        if found.st_uid == os.geteuid() and found.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            # not by its name, which may have become a link
            os.chmod("/proc/self/fd/%d" % place, stat.S_IMODE(found.st_mode) | stat.S_IRWXU)
    finally:
        os.close(place)


def _empty(top: int, path: Path) -> None:
    """Remove what is in a directory, without recursion: a rank may nest directories as deep as it likes."""
    for _ in range(MAX_PASSES):
        names = os.listdir(top)
        if not names:
            return
        for name in names:
            with contextlib.suppress(FileNotFoundError):  # another process removes the same directory
                _remove_one(top, name, path / name)
    raise OSError(errno.EBUSY, "other processes keep writing there", str(path))


def _remove_one(top: int, name: str, path: Path) -> None:
    with _naming(path):
        if not _is_directory(top, name):
            os.unlink(name, dir_fd=top)
        elif not _removed_empty(top, name):
            _raise_children(top, name, path)


def _removed_empty(top: int, name: str) -> bool:
    try:
        os.rmdir(name, dir_fd=top)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _raise_children(top: int, name: str, path: Path) -> None:
    """Remove the files of a directory in `top` and move its directories up, to `top`."""
    with _opened(top, name) as inside:
        if os.fstat(inside).st_dev != os.fstat(top).st_dev:
            raise OSError(errno.EXDEV, "another file system is mounted there; unmount it", str(path))
        for child in os.listdir(inside):
            with contextlib.suppress(FileNotFoundError), _naming(path / child):
                if _is_directory(inside, child):
                    _raise(inside, child, top)
                else:
                    os.unlink(child, dir_fd=inside)


def _raise(inside: int, child: str, top: int) -> None:
    """Move a directory up, under a new name. That changes its `..`, which needs the right to change it."""
    above = "removed-" + os.urandom(8).hex()
    try:
        os.rename(child, above, src_dir_fd=inside, dst_dir_fd=top)
    except PermissionError:
        _open_to_owner(inside, child)
        os.rename(child, above, src_dir_fd=inside, dst_dir_fd=top)
