"""Secrets on this host: files in memory, in a directory that no other user can change."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

from . import state_directory
from .rank_user import other_user
from .refusal import Refused
from .run_directory import secrets_base, user_name

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
# Another run of this user may remove the empty base at the same time.
TRIES = 5


class UnsafePlace(Refused):
    """Another user could read or replace the secrets; `hint` says what to do."""


def write(directory: Path, files: Dict[str, bytes], user: Optional[Dict[str, Any]] = None) -> None:
    """Write these files to a new directory below the base. Raises UnsafePlace and OSError.

    If root writes for `user`, the directory still belongs to root: the user can read it through its group, not write.
    """
    for attempt in range(TRIES):
        try:
            with _base() as base:
                _write(base, directory, files, user)
        except FileNotFoundError:
            if attempt == TRIES - 1:
                raise
        else:
            return


def read(directory: Path, name: str) -> str:
    """Value of one secret, for an environment variable. Raises OSError."""
    return os.fsdecode((directory / name).read_bytes())


def docker_config(directory: Path) -> Path:
    """Directory of the docker configuration with the registry's password, for the pull of this attempt."""
    return directory.with_name(directory.name + ".docker")


def remove(directory: Path) -> str:
    """Remove the secrets of an attempt, and the base if it is then empty; return why that failed, or empty.

    From every base of this user: two runs at once may have got one each, if another user kept the lock of the parent.
    """
    parent = directory.parent.parent
    bases = {directory.parent, *(Path(own) for own in state_directory.all_own(str(parent)))}
    return "; ".join(filter(None, (_remove_from(base, directory.name) for base in sorted(bases))))


def _remove_from(base: Path, name: str) -> str:
    if not os.path.lexists(str(base)) or not _is_ours(os.lstat(str(base))):
        return ""  # not a directory of this user, and a link could point anywhere
    import shutil

    for path in (base / name, docker_config(base / name)):
        try:
            shutil.rmtree(str(path))
        except FileNotFoundError:
            continue
        except OSError as error:
            return "%s: %s" % (path, error.strerror or error)
    with contextlib.suppress(OSError):
        if "." not in base.name:  # a name that had to be drawn stays: other runs of this user know it by now
            base.rmdir()
    return ""


def _is_ours(found: os.stat_result) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & _OTHERS_WRITE


def _write(base: int, directory: Path, files: Dict[str, bytes], user: Optional[Dict[str, Any]]) -> None:
    import shutil

    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(str(directory))  # of an earlier attempt to write
    os.mkdir(directory.name, 0o700, dir_fd=base)
    inside = os.open(directory.name, _DIRECTORY, dir_fd=base)
    try:
        others = other_user(user)
        for name, value in files.items():
            with os.fdopen(os.open(name, _NEW_FILE, 0o400, dir_fd=inside), "wb") as handle:
                if others:
                    os.fchown(handle.fileno(), others["uid"], others["gid"])
                handle.write(value)
        if others:
            os.fchown(inside, -1, others["gid"])
            os.fchmod(inside, 0o750)
    finally:
        os.close(inside)


@contextlib.contextmanager
def _base() -> Iterator[int]:
    """Open the base and check that it belongs to this user: every user can create names in /dev/shm."""
    path = secrets_base()
    _check_parent(path.parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(str(path), 0o700)
    try:
        base = os.open(str(path), _DIRECTORY)
    except FileNotFoundError:
        raise
    except OSError as error:  # a link, a file, or a directory without permission
        raise _refusal(path, os.lstat(str(path))) from error
    try:
        if not _is_ours(os.fstat(base)):
            raise _refusal(path, os.fstat(base))
        os.fchmod(base, 0o711)  # whatever the umask: the user of the ranks must be able to enter
        yield base
    finally:
        os.close(base)


def _check_parent(parent: Path) -> None:
    """Check the sticky bit: without it, users who may write to `parent` could replace the base."""
    mode = os.stat(str(parent)).st_mode
    if mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
        raise UnsafePlace(
            "secrets cannot be written below %s: every user may rename files there (mode %04o)"
            % (parent, stat.S_IMODE(mode)),
            hint="chmod 1777 %s" % parent,
        )


def _refusal(path: Path, found: os.stat_result) -> UnsafePlace:
    kind = {stat.S_IFLNK: "a symbolic link", stat.S_IFDIR: "a directory"}.get(stat.S_IFMT(found.st_mode), "a file")
    return UnsafePlace(
        "secrets cannot be written to %s: it is %s of %s with mode %04o; it must be a directory of %s that no other "
        "user may write to"
        % (path, kind, user_name(found.st_uid), stat.S_IMODE(found.st_mode), user_name(os.geteuid())),
        hint="ls -ld %s shows the owner; remove it as that user or as root" % path,
    )
