"""Access to paths that ranks or other users can change: no link is followed, only regular files are opened.

A path has two parts. The first was chosen by an administrator or made by this program, and is followed as it is. What
is below it, ranks or other users may replace at any moment, so each component is opened relative to the one before.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import IO, AbstractSet, Callable, Iterator, List, NamedTuple, Optional, Tuple

from .protocol import SHARED_RUNS
from .run_directory import user_name

Wanted = Callable[[Tuple[str, ...]], bool]
Turn = Callable[[], None]
PATH = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
NOT_REGULAR = {
    stat.S_IFLNK: "is a symbolic link, which is not followed",
    stat.S_IFDIR: "is a directory",
    stat.S_IFIFO: "is a FIFO, not a regular file",
    stat.S_IFSOCK: "is a socket, not a regular file",
    stat.S_IFCHR: "is a device, not a regular file",
    stat.S_IFBLK: "is a device, not a regular file",
}


class Below(NamedTuple):
    """A path as the directory that is trusted, and the components below it that are not."""

    base: Path
    parts: Tuple[str, ...]

    @property
    def path(self) -> Path:
        """The whole path."""
        return self.base.joinpath(*self.parts)

    @property
    def parent(self) -> "Below":
        """The directory that contains it."""
        return Below(self.base, self.parts[:-1])

    @property
    def name(self) -> str:
        """The last component."""
        return self.parts[-1]


def locate(path: Path) -> Below:
    """Split a path at the directory of all runs on a shared directory; elsewhere only the last part is untrusted."""
    if SHARED_RUNS not in path.parts:
        return Below(path.parent, (path.name,))
    at = len(path.parts) - 1 - path.parts[::-1].index(SHARED_RUNS)
    return Below(Path(*path.parts[:at]), path.parts[at:])


def _named(error: OSError, path: object) -> OSError:
    return OSError(error.errno, error.strerror, str(path))


def _refuse_kind(mode: int, path: object) -> None:
    why = NOT_REGULAR.get(stat.S_IFMT(mode))
    if why:
        raise OSError(errno.ELOOP if stat.S_ISLNK(mode) else errno.EINVAL, why, str(path))


# -- directories -------------------------------------------------------------------------------------


@contextlib.contextmanager
def directory(below: Below, owners: Optional[AbstractSet[int]] = None) -> Iterator[int]:
    """Descriptor of a directory, to open what is in it. Raises OSError for links and for other owners.

    `owners`: allowed uids of each component below the directory of all runs.
    """
    fd = os.open(str(below.base), PATH)
    try:
        for at, part in enumerate(below.parts):
            path = below.base.joinpath(*below.parts[: at + 1])
            inner = _enter(fd, part, path)
            os.close(fd)
            fd = inner
            if owners is not None and part != SHARED_RUNS:
                _check_owner(os.fstat(fd), owners, path)
        yield fd
    finally:
        os.close(fd)


def _enter(fd: int, part: str, path: Path) -> int:
    try:
        return os.open(part, PATH | os.O_NOFOLLOW, dir_fd=fd)
    except NotADirectoryError as error:
        mode = os.stat(part, dir_fd=fd, follow_symlinks=False).st_mode
        raise OSError(error.errno, NOT_REGULAR.get(stat.S_IFMT(mode), error.strerror), str(path)) from None
    except OSError as error:
        raise _named(error, path) from None


def _check_owner(found: os.stat_result, owners: AbstractSet[int], path: object) -> None:
    if found.st_uid not in owners:
        raise OSError(
            errno.EPERM,
            "belongs to %s, not to %s" % (user_name(found.st_uid), " or ".join(map(user_name, sorted(owners)))),
            str(path),
        )


def make_directory(below: Below, mode: int, owner: Optional[Tuple[int, int]], owners: AbstractSet[int]) -> None:
    """Create a directory, give it to `owner` (uid, gid), or check the owner of an existing one. Raises OSError."""
    with directory(below.parent, owners) as parent:
        try:
            os.mkdir(below.name, 0o700, dir_fd=parent)
        except FileExistsError:
            with directory(below, owners):
                return
        fd = os.open(below.name, LIST, dir_fd=parent)
        try:
            _check_owner(os.fstat(fd), {os.geteuid()}, below.path)  # not one that was put in its place
            os.fchmod(fd, mode)
            if owner is not None:
                os.fchown(fd, *owner)
        finally:
            os.close(fd)


def walk(
    top: int, max_depth: int, skip: str = "", *, wanted: Wanted = lambda _: True, turn: Turn = lambda: None
) -> Iterator[Tuple[str, int, List[str], Optional[OSError]]]:
    """(path below `top`, its descriptor, names of files) of each directory; or the error, if it cannot be listed.

    Directories named `skip`, and those whose path (its components) is not `wanted`, are left out. Calls `turn` often.
    """
    pending: List[Tuple[str, ...]] = [()]
    while pending:
        parts = pending.pop()
        relative = "/".join(parts)
        if len(parts) > max_depth:
            why = "is nested deeper than %d directories" % max_depth
            yield relative, -1, [], OSError(errno.ELOOP, why, relative)
            continue
        try:
            with _descend(top, parts) as fd:
                directories, files = entries(fd, turn)
                pending += filter(wanted, ((*parts, name) for name in reversed(directories) if name != skip))
                yield relative, fd, files, None
        except OSError as error:
            yield relative, -1, [], error


def entries(fd: int, turn: Turn = lambda: None) -> Tuple[List[str], List[str]]:
    """Sorted names of (directories, anything else) in an open directory. Raises OSError."""
    listed = os.open(".", LIST, dir_fd=fd)
    try:
        with os.scandir(listed) as entries:
            kinds = {}
            for entry in entries:
                kinds[entry.name] = entry.is_dir(follow_symlinks=False)
                turn()
    finally:
        os.close(listed)
    return sorted(name for name in kinds if kinds[name]), sorted(name for name in kinds if not kinds[name])


@contextlib.contextmanager
def _descend(top: int, parts: Tuple[str, ...]) -> Iterator[int]:
    fd = os.dup(top)
    try:
        for part in parts:
            inner = _enter(fd, part, Path(part))
            os.close(fd)
            fd = inner
        yield fd
    finally:
        os.close(fd)


# -- files -------------------------------------------------------------------------------------------


def open_at(fd: int, name: str, path: object, owner: Optional[int] = None, *, writable: bool = False) -> IO[bytes]:
    """Open a regular file in an open directory, to read it; `owner`: its only allowed uid. Raises OSError at once.

    A FIFO would block, a device could do anything, and a hard link may lead to the file of another user.
    `writable`: for a file lock that needs it.
    """
    flags, mode = (_READ | os.O_RDWR, "r+b") if writable else (_READ, "rb")
    try:
        _refuse_kind(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode, path)
        opened = os.open(name, flags, dir_fd=fd)
    except OSError as error:
        raise _named(error, path) from None
    try:
        found = os.fstat(opened)
        _refuse_kind(found.st_mode, path)
        if owner is not None:
            _check_owner(found, {owner}, path)
        return os.fdopen(opened, mode)  # which leaves the descriptor open if it is of a directory
    except OSError:
        os.close(opened)
        raise


def open_file(below: Below, owner: Optional[int] = None, *, writable: bool = False) -> IO[bytes]:
    """Open a regular file (`open_at`). Raises OSError."""
    with directory(below.parent) as fd:
        return open_at(fd, below.name, below.path, owner, writable=writable)


def new_file(below: Below) -> IO[bytes]:
    """Open a file that this call creates. Raises FileExistsError, and OSError."""
    with directory(below.parent) as fd:
        return os.fdopen(os.open(below.name, _NEW, 0o644, dir_fd=fd), "wb")


def create_file(below: Below, data: bytes, owners: Optional[AbstractSet[int]] = None) -> None:
    """Write a file through a new name, which replaces whatever had the name before. Raises OSError."""
    with directory(below.parent, owners) as fd:
        name = ".%s.%s" % (below.name, os.urandom(8).hex())
        with os.fdopen(os.open(name, _NEW, 0o644, dir_fd=fd), "wb") as handle:
            handle.write(data)
            os.fchmod(handle.fileno(), 0o644)
        os.replace(name, below.name, src_dir_fd=fd, dst_dir_fd=fd)


def touch(below: Below) -> None:
    """Set the times of a file or link to now. Raises OSError."""
    with directory(below.parent) as fd:
        os.utime(below.name, dir_fd=fd, follow_symlinks=False)
