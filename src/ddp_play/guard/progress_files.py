"""Newest file of those that the job names as its progress, read with the rights of the ranks' user.

Ranks write below the first wildcard, so no link is followed there: a link counts with its own time.
"""

from __future__ import annotations

import contextlib
import errno
import fnmatch
import glob
import os
import stat
import time
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterator, List, Optional, Tuple

from .protocol import MAX_DEPTH, SHARED_RUNS
from .rank_user import acting_as
from .untrusted_paths import Below, directory, locate, walk

# A pattern may match a whole file system. What was not looked at is unknown.
MAX_ENTRIES = 100_000
READ_S = 15.0
# Places in a pattern that a path has reached; the pattern's length: the path, or a directory above it, matches.
Reached = FrozenSet[int]


def newest(spec: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Path, size, time of modification and age of the newest file; None if there is none.

    Raises OSError if that cannot be known: a directory cannot be read, or there are too many files. Two answers without
    a new file end the run, so what was not seen must not count as missing.
    """
    pattern = spec.get("progress")
    if not pattern:
        return None
    top, parts = _split(pattern)
    best: Optional[Dict[str, Any]] = None
    with acting_as(spec.get("user")), contextlib.ExitStack() as opened:
        try:
            fd = opened.enter_context(directory(locate(top) if SHARED_RUNS in top.parts else Below(top, ())))
        except FileNotFoundError:
            return None
        for row in _rows(fd, top, parts):
            if best is None or row["mtime_ns"] > best["mtime_ns"]:
                best = row
    return best


def _split(pattern: str) -> Tuple[Path, List[str]]:
    """The directory above the first wildcard or the last component, and the components below it."""
    parts = [part for part in os.path.abspath(pattern).split("/") if part]
    fixed = next((at for at, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    return Path("/", *parts[:fixed]), parts[fixed:]


def _rows(fd: int, top: Path, pattern: List[str]) -> Iterator[Dict[str, Any]]:
    """A row for each file that matches, or is below a directory that does. Raises OSError."""
    deadline, left = time.monotonic() + READ_S, MAX_ENTRIES
    for where, inside, names, error in walk(fd, MAX_DEPTH, wanted=lambda parts: bool(_reach(pattern, parts))):
        if error is not None and not (where and isinstance(error, FileNotFoundError)):
            raise OSError(error.errno, "ddp_job_progress cannot be read: %s" % error.strerror, str(top / where))
        reached = _reach(pattern, tuple(where.split("/")) if where else ())
        left -= len(names) + 1
        if left < 0 or time.monotonic() > deadline:
            why = "ddp_job_progress matches too large a tree: more than %d files or %d s" % (MAX_ENTRIES, READ_S)
            raise OSError(errno.ETIMEDOUT, why, str(top))
        for name in names:
            if len(pattern) in _step(pattern, reached, name):
                yield from _row(inside, name, top / where / name)


def _reach(pattern: List[str], parts: Tuple[str, ...]) -> Reached:
    reached = _pass_stars(pattern, {0})
    for name in parts:
        reached = _step(pattern, reached, name)
    return reached


def _step(pattern: List[str], reached: Reached, name: str) -> Reached:
    """One component further; as in `glob`, wildcards match no hidden names."""
    found = set()
    for at in reached:
        if at == len(pattern):
            found.add(at)  # below a directory that matches
        elif pattern[at] == "**":
            found |= set() if name.startswith(".") else {at}
        elif fnmatch.fnmatchcase(name, pattern[at]) and (pattern[at].startswith(".") or not name.startswith(".")):
            found.add(at + 1)
    return _pass_stars(pattern, found)


def _pass_stars(pattern: List[str], found: "set[int]") -> Reached:
    """`**` also matches no directory at all."""
    for at, part in enumerate(pattern):
        if at in found and part == "**":
            found = found | {at + 1}
    return frozenset(found)


def _row(fd: int, name: str, path: Path) -> Iterator[Dict[str, Any]]:
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:  # removed meanwhile
        return
    if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
        age_s = max(0.0, time.time() - found.st_mtime)
        yield {"path": str(path), "mtime_ns": max(0, found.st_mtime_ns), "size": found.st_size, "age_s": age_s}
