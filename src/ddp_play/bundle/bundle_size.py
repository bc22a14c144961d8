"""Size of a bundle: recorded in run.json at the end of a run, and measured within a bound where it is not.

The report comes later, and may be made anew at any time: it is not in the recorded number, and is looked at each time.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import RunPaths

if TYPE_CHECKING:
    from pathlib import Path

RECORDED = "bundle_bytes"  # field of run.json
LIST_ENTRIES = 5_000  # files and folders that one list of runs looks at for sizes which are not recorded


@dataclass
class Budget:
    """Number of files and folders that may still be looked at, a bundle among them; None: any number."""

    entries: int | None = None

    def take(self) -> bool:
        """Use one entry. False if none is left."""
        if self.entries is None:
            return True
        self.entries -= 1
        return self.entries >= 0


def measure(root: Path, budget: Budget | None = None) -> int | None:
    """Bytes of all files below, as their lengths say; None if the budget did not suffice. Links are not followed."""
    allowed = budget or Budget()
    total, folders = 0, [os.fspath(root)]
    while folders:
        if not allowed.take():
            return None
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # gone meanwhile, or not readable
            continue
        for entry in entries:
            if not allowed.take():
                return None
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            else:
                total += _length(entry)
    return total


def _length(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0


def to_record(root: Path) -> int:
    """Bytes of all files but the report."""
    return (measure(root) or 0) - _report(root)


def size_of(root: Path, document: dict[str, Any], budget: Budget | None = None) -> int | None:
    """The size in run.json with that of the report, else the measured one."""
    recorded = document.get(RECORDED)
    return recorded + _report(root) if type(recorded) is int else measure(root, budget)


def _report(root: Path) -> int:
    try:
        return RunPaths(root).report.lstat().st_size
    except OSError:
        return 0
