"""Samples of an attempt that are new to a reader: what was added to the file, also after it was thinned."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from .protocol import MAX_PAYLOAD
from .sample_file import lines_of, rows_of
from .sample_thinning import HOST_END
from .untrusted_paths import Below, open_file

if TYPE_CHECKING:
    from pathlib import Path

Rows = List[Dict[str, Any]]


class FollowedSamples:
    """Each row is returned once: rows are known by their ends, so a file in place of an earlier one repeats none."""

    def __init__(self, path: Path, after: float) -> None:
        """`after`: end of the newest row that the reader has, in seconds since this host booted."""
        self._path = path
        self._after = after
        self._inode: Optional[int] = None
        self._offset = 0
        self._rest = b""
        self.is_behind = False  # what was read last is not all of the file, also if none of it was new

    def take(self) -> bytes:
        """New lines, about MAX_PAYLOAD bytes at most: first that about the host, and rows that end after `after`."""
        header, rows = self._new()
        return header + lines_of(rows)

    def take_rows(self) -> Rows:
        """The rows of which `take` returns the lines."""
        return self._new()[1]

    def _new(self) -> Tuple[bytes, Rows]:
        self.is_behind = False
        try:
            found = self._path.lstat()
            if found.st_ino == self._inode and found.st_size <= self._offset:
                return b"", []
            with open_file(Below(self._path.parent, (self._path.name,)), None) as handle:
                there = os.fstat(handle.fileno())
                inode = there.st_ino
                if inode != self._inode:
                    self._inode, self._offset, self._rest = inode, 0, b""
                is_start = self._offset == 0
                handle.seek(self._offset)
                data = handle.read(MAX_PAYLOAD)
        except OSError:
            return b"", []
        self._offset += len(data)
        self.is_behind = bool(data) and self._offset < there.st_size
        lines, newline, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest if len(rest) < MAX_PAYLOAD else b""  # no line of ours is as long
        return self._wanted(lines + newline, is_start=is_start)

    def _wanted(self, data: bytes, *, is_start: bool) -> Tuple[bytes, Rows]:
        rows = [row for row in rows_of(data) if row[HOST_END] > self._after]
        if rows:
            self._after = max(row[HOST_END] for row in rows)
        return data[: data.find(b"\n") + 1] if is_start else b"", rows
