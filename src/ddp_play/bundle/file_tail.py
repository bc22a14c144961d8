"""Readers of growing files of a bundle: their end, or at each call the lines that were added since the last one."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

READ_BYTES = 1 << 20
# A longer line is cut on the screen; the file has the whole line.
LINE_BYTES = 4000


def read_end(path: Path, num_bytes: int) -> tuple[bytes, int]:
    """At most the last `num_bytes` of a file, and its size. Raises OSError."""
    with path.open("rb") as handle:
        size = handle.seek(0, 2)
        handle.seek(max(0, size - num_bytes))
        return handle.read(num_bytes), size


def size_in_bytes(path: Path) -> int:
    """Size of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


class LineTail:
    """Complete lines added to a file since the last call; `finish` also returns a last line without a newline."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self._offset = offset
        self._rest = b""
        self._num_left_out = 0  # bytes of the line that is not complete yet

    def skip_to_last(self, number: int) -> None:
        """Skip what is in the file now, except its last `number` lines."""
        try:
            size = self.path.stat().st_size
            with self.path.open("rb") as handle:
                begin = handle.seek(max(0, size - number * LINE_BYTES))
                data = handle.read(size - begin)
        except OSError:
            return
        kept = data.rstrip(b"\n").rsplit(b"\n", number)
        if len(kept) > number:
            self._offset = begin + len(kept[0]) + 1
        elif begin:  # fewer lines, since they are long
            self._offset = begin + data.find(b"\n") + 1

    def skip_backlog(self, max_bytes: int) -> None:
        """Skip what is more than `max_bytes` before the end of the file."""
        with contextlib.suppress(OSError):
            begin = self.path.stat().st_size - max_bytes
            if begin > self._offset:
                self._offset, self._rest, self._num_left_out = begin, b"", 0

    def some_lines(self) -> list[str]:
        """New complete lines of the next READ_BYTES, as text: of a file that grows faster than lines are shown."""
        return [shown(line, num_left_out) for line, num_left_out in self._split(self._read())]

    def lines(self) -> list[str]:
        """New complete lines, as text."""
        return [shown(line, num_left_out) for line, num_left_out in self.pieces()]

    def pieces(self) -> list[tuple[bytes, int]]:
        """New complete lines as they are, each with the number of its bytes that were left out."""
        out: list[tuple[bytes, int]] = []
        while data := self._read():
            out += self._split(data)
        return out

    def _split(self, data: bytes) -> list[tuple[bytes, int]]:
        out: list[tuple[bytes, int]] = []
        *complete, self._rest = (self._rest + data).split(b"\n")
        for line in complete:
            out.append((line, self._num_left_out))
            self._num_left_out = 0
        self._keep_little()
        return out

    def finish(self) -> list[str]:
        """The remaining lines, after the writer has finished."""
        complete = self.lines()
        rest, self._rest = self._rest, b""
        return [*complete, *([shown(rest, self._num_left_out)] if rest else [])]

    def _keep_little(self) -> None:
        """Of a line without an end keep what will be shown: it may grow to gigabytes."""
        if len(self._rest) > READ_BYTES:
            line = self._rest.rpartition(b"\r")[2]
            self._rest = line[:LINE_BYTES]
            self._num_left_out += len(line) - len(self._rest)

    def finish_in(self, moved: Path) -> list[str]:
        """The remaining lines of a file that was moved to `moved`, or is about to be."""
        out: list[str] = []
        if not moved.exists():
            out = self.lines()
        self.path = moved
        return out + self.finish()

    def _read(self) -> bytes:
        try:
            with self.path.open("rb") as handle:
                handle.seek(self._offset)
                data = handle.read(READ_BYTES)
        except OSError:
            return b""
        self._offset += len(data)
        return data


def shown(line: bytes, num_left_out: int = 0) -> str:
    """A line of a log for the screen: valid text, only what follows the last carriage return, no control characters.

    `num_left_out`: bytes of the line that are not in `line`.
    """
    line = line.rstrip(b"\r").rpartition(b"\r")[2]
    text = line[:LINE_BYTES].decode("utf-8", "replace")
    num_bytes = len(line) + num_left_out
    cut = f" ... ({num_bytes} bytes)" if num_bytes > LINE_BYTES else ""
    if text.isprintable():
        return text + cut
    return "".join(char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text) + cut


class JsonTail:
    """JSON objects added to a file since the last call, one per line; other lines are skipped."""

    def __init__(self, path: Path) -> None:
        self._lines = LineTail(path)

    def skip_backlog(self, max_bytes: int) -> None:
        """Skip what is more than `max_bytes` before the end; the first line after that is no row."""
        self._lines.skip_backlog(max_bytes)

    def rows(self) -> list[dict[str, Any]]:
        """New objects."""
        found = []
        for line, num_left_out in self._lines.pieces():
            try:
                row = None if num_left_out else json.loads(line.decode("utf-8", "replace"))
            except (ValueError, RecursionError):
                continue
            if isinstance(row, dict):
                found.append(row)
        return found
