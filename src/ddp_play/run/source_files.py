"""Files of the job's source: which ones there are, and their content at one moment."""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddp_play.planning.job import Job

# A file that changes is read again, this often, with a pause in between.
READ_TRIES, READ_PAUSE_S = 5, 0.05
# Larger files are read in parts of this size.
READ_BYTES = 16 << 20
# Two writes within a tick of the kernel's clock (10 ms at 100 Hz) can leave the same times.
TICK_NS = 20_000_000
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class SourceFile(NamedTuple):
    """A file as it was at one moment: size in bytes; `link`: target of a symbolic link, which has no content."""

    mode: int
    mtime_ns: int
    link: bytes
    size: int


# Gets what a file is when its content is about to be read, and returns what takes the content, part by part. Called
# once more for each time that the file is read again.
Begin = Callable[[SourceFile], Callable[[bytes], object]]


def list_files(root: Path, job: Job) -> dict[str, int]:
    """Size in bytes of each file below `root`, by its relative path; the files of a directory follow one another.

    Symbolic links are files and are not followed. Sockets, FIFOs and devices are left out. A directory of which
    nothing is copied has a row too, whose path ends with a slash.
    """
    excluded = _matcher(job.source_exclude)
    found: dict[str, int] = {}
    for name in job.source_include or (".",):
        path = root / name
        if not os.path.lexists(path):
            raise UsageError(
                f"ddp_job_source_include: {path} does not exist",
                hint="correct ddp_job_source_include: its paths count from ddp_job_source",
            )
        start = _below(root, path)
        if path.is_file() or not path.exists():
            found[start] = path.lstat().st_size
        else:
            found.update(_walk(root, start, excluded))
    return {name: found[name] for name in sorted(found, key=os.path.split)}


def is_directory(name: str) -> bool:
    """Is it the path of such a directory?"""
    return name.endswith("/")


def read_file(path: str, begin: Begin) -> None:
    """Read a file or link. UsageError if that is not possible, or if the file changes each time it is read."""
    try:
        found = os.lstat(path)
        if stat.S_ISLNK(found.st_mode):
            begin(SourceFile(stat.S_IMODE(found.st_mode), found.st_mtime_ns, os.fsencode(Path(path).readlink()), 0))
            return
        for _ in range(READ_TRIES):
            if _read_once(path, begin):
                return
            time.sleep(READ_PAUSE_S)
    except OSError as error:
        raise _unreadable(path, error) from None
    raise UsageError(
        f"ddp_job_source: {path} changed each of the {READ_TRIES} times it was read",
        hint="wait for the program that writes it, or add it to ddp_job_source_exclude",
    )


def _read_once(path: str, begin: Begin) -> bool:
    """Pass a file's state and content on. False if somebody wrote to it meanwhile, or may have."""
    with os.fdopen(os.open(path, _READ), "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        began_ns, left = time.time_ns(), before.st_size
        take = begin(SourceFile(stat.S_IMODE(before.st_mode), before.st_mtime_ns, b"", before.st_size))
        while left >= 0 and (part := file.read(min(left, READ_BYTES) or 1)):
            take(part)
            left -= len(part)
        after = os.fstat(file.fileno())
    return left == 0 and _version(before) == _version(after) and not 0 <= began_ns - after.st_ctime_ns < TICK_NS


def _version(found: os.stat_result) -> tuple[int, int, int]:
    return found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _matcher(patterns: tuple[str, ...]) -> Callable[[str, str], bool]:
    """Whether one of the patterns matches a name or the relative path."""
    if not patterns:
        return lambda _name, _path: False
    match = re.compile("|".join(map(fnmatch.translate, patterns))).match
    return lambda name, path: bool(match(name) or match(path))


def _below(root: Path, path: Path) -> str:
    """Path relative to the root; empty for the root itself."""
    try:
        relative = str(Path(os.path.normpath(path)).relative_to(os.path.normpath(root)))
    except ValueError:
        raise UsageError(
            f"ddp_job_source_include: {path} is not below {root}", hint="name files below ddp_job_source"
        ) from None
    return "" if relative == "." else relative


def _walk(root: Path, start: str, excluded: Callable[[str, str], bool]) -> Iterator[tuple[str, int]]:
    pending = [start]
    while pending:
        where = pending.pop()
        prefix, is_empty = where + "/" if where else "", True
        try:
            with os.scandir(root / where) as entries:
                for entry in entries:
                    path = prefix + entry.name
                    if excluded(entry.name, path):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(path)
                    elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                        yield path, entry.stat(follow_symlinks=False).st_size
                    else:
                        continue
                    is_empty = False
        except OSError as error:
            raise _unreadable(str(error.filename or root / where), error) from None
        if is_empty and where:
            yield prefix, 0


def _unreadable(path: str, error: OSError) -> UsageError:
    return UsageError(
        f"ddp_job_source: cannot read {path}: {error.strerror}",
        hint="make it readable or add it to ddp_job_source_exclude",
    )
