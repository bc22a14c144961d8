"""Newest file of those that the job names as its progress, read with the rights of the ranks' user."""

from __future__ import annotations

import contextlib
import glob
import itertools
import os
import stat
import time
from typing import Any, Dict, Iterator, Optional

from .rank_user import acting_as

# A pattern may match a whole file system: the newest of the first entries counts.
MAX_ENTRIES = 100_000
READ_S = 15.0


def newest(spec: Dict[str, Any]) -> Optional[Dict[str, Any]]:
    """Path, size, time of modification and age of the newest file; None if there is none, or it cannot be seen."""
    pattern = spec.get("progress")
    if not pattern:
        return None
    deadline = time.monotonic() + READ_S
    best: Optional[Dict[str, Any]] = None
    with contextlib.suppress(OSError), acting_as(spec.get("user")):
        for path in itertools.islice(_paths(pattern), MAX_ENTRIES):
            row = _row(path)
            if row is not None and (best is None or row["mtime_ns"] > best["mtime_ns"]):
                best = row
            if time.monotonic() > deadline:
                break
    return best


def _paths(pattern: str) -> Iterator[str]:
    """Matches of a glob, and the files below the matches that are directories."""
    for path in glob.iglob(pattern, recursive=True):
        yield path
        for top, _, names in os.walk(path):
            for name in names:
                yield os.path.join(top, name)


def _row(path: str) -> Optional[Dict[str, Any]]:
    try:
        found = os.stat(path)
    except OSError:  # removed meanwhile, or a link to nothing
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    age_s = max(0.0, time.time() - found.st_mtime)
    return {"path": path, "mtime_ns": max(0, found.st_mtime_ns), "size": found.st_size, "age_s": age_s}
