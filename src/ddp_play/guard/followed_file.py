"""A file that is sent piece by piece as it grows, also after a rank has truncated it (`echo > /dev/stderr`).

Offsets count all bytes that were sent, so they go on when the file starts again. A truncation before the first look at
a file, or after which it begins with the same bytes and is longer than before, leaves no trace.
"""

from __future__ import annotations

import contextlib
import os
from typing import IO, TYPE_CHECKING, Any, Dict, Optional

from .protocol import MAX_PAYLOAD
from .run_directory import read_json, write_json
from .untrusted_paths import Below, open_file

if TYPE_CHECKING:
    from pathlib import Path

# First bytes by which a file that was truncated and has grown again is recognized.
HEAD_BYTES = 256
TRUNCATED = "the rank truncated it, as > /dev/stderr does; >> does not. Lines before that may be missing"


class FileStarts:
    """By name of a followed file: `base`, the offset at which the present file starts, its `head`, and `truncated`.

    They are stored for the next channel. Where they cannot be, it sends a truncated file from its start again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: Dict[str, Any] = read_json(path) or {}

    def row(self, name: str) -> Dict[str, Any]:
        """What is known of a file."""
        row = self._rows.get(name)
        return row if isinstance(row, dict) else {}

    def store(self, name: str, **row: Any) -> None:
        """Replace what is known of a file."""
        self._rows[name] = row
        with contextlib.suppress(OSError):
            write_json(self._path, self._rows)


class Followed:
    """One file. `truncated`: bytes of it may be lost. `problem`: why it cannot be read now."""

    def __init__(
        self, path: Path, offset: int, starts: FileStarts, *, kind: str = "log", owner: Optional[int] = None
    ) -> None:
        """`owner`: the only uid whose file is read; the directory of the path cannot be replaced by ranks."""
        self.path = path
        self.offset = offset
        self.problem = ""
        self._name = "%s %s/%s" % (kind, path.parent.name, path.name)
        self._starts = starts
        self._owner = owner
        self._mtime_ns: Optional[int] = None
        known = starts.row(self._name)
        self.truncated = bool(known.get("truncated"))
        try:
            self._base, self._head = int(known.get("base", 0)), bytes.fromhex(known.get("head", ""))
        except (TypeError, ValueError):
            self._base, self._head = 0, b""
        if self._base > offset:  # what was sent after `offset` did not arrive
            self._base = offset
            self._store()

    def next_chunk(self) -> bytes:
        """Bytes appended since `offset`, at most MAX_PAYLOAD; empty if there are none or the file cannot be read."""
        try:
            found = self.path.lstat()
            if (found.st_size, found.st_mtime_ns) == (self.offset - self._base, self._mtime_ns):
                return b""
            with open_file(Below(self.path.parent, (self.path.name,)), self._owner) as handle:
                self._check_start(handle)
                handle.seek(self.offset - self._base)
                chunk = handle.read(MAX_PAYLOAD)
        except OSError as error:
            is_absent = isinstance(error, FileNotFoundError) and not self.path.parent.is_dir()
            self.problem = "" if is_absent else "it cannot be read: %s" % (error.strerror or error)
            return b""
        self.problem, self._mtime_ns = "", found.st_mtime_ns
        if chunk and len(self._head) < HEAD_BYTES and self.offset - self._base == len(self._head):
            self._head += chunk[: HEAD_BYTES - len(self._head)]
            self._store()
        return chunk

    @property
    def is_behind(self) -> bool:
        """Whether the file has bytes after `offset`, or was truncated."""
        try:
            return self.path.lstat().st_size != self.offset - self._base
        except OSError:
            return False

    def loss(self) -> str:
        """Why bytes of it may be missing; empty if all that it has was returned."""
        return self.problem or (TRUNCATED if self.truncated else "")

    def _check_start(self, handle: IO[bytes]) -> None:
        """Go on from the start of the file if it is not the one that was read before."""
        position = self.offset - self._base
        head = handle.read(len(self._head) or min(position, HEAD_BYTES))
        if os.fstat(handle.fileno()).st_size < position or (self._head and head != self._head):
            self._base, self._head, self.truncated = self.offset, b"", True
            self._store()
        elif not self._head:
            self._head = head

    def _store(self) -> None:
        self._starts.store(self._name, base=self._base, head=self._head.hex(), truncated=self.truncated)
