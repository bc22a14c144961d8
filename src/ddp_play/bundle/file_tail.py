"""Readers of growing files of a bundle: each call returns the lines that were added since the last one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

READ_BYTES = 1 << 20
# A longer line is cut on the screen; the file has the whole line.
LINE_BYTES = 4000


class LineTail:
    """Complete lines added to a file since the last call; `finish` also returns a last line without a newline."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self._offset = offset
        self._rest = b""

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

    def lines(self) -> list[str]:
        """New complete lines, as text."""
        out: list[str] = []
        while True:
            data = self._read()
            if not data:
                return out
            *complete, self._rest = (self._rest + data).split(b"\n")
            out += [shown(line) for line in complete]

    def finish(self) -> list[str]:
        """The remaining lines, after the writer has finished."""
        complete = self.lines()
        rest, self._rest = self._rest, b""
        return [*complete, *([shown(rest)] if rest else [])]

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


def shown(line: bytes) -> str:
    """A line of a log for the screen: valid text, only what follows the last carriage return, no control characters."""
    line = line.rstrip(b"\r").rpartition(b"\r")[2]
    text = line[:LINE_BYTES].decode("utf-8", "replace")
    cut = f" ... ({len(line)} bytes)" if len(line) > LINE_BYTES else ""
    return "".join(char if char.isprintable() or char == "\t" else "\N{REPLACEMENT CHARACTER}" for char in text) + cut


class JsonTail:
    """JSON objects added to a file since the last call, one per line; other lines are skipped."""

    def __init__(self, path: Path) -> None:
        self._lines = LineTail(path)

    def rows(self) -> list[dict[str, Any]]:
        """New objects."""
        found = []
        for line in self._lines.lines():
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict):
                found.append(row)
        return found
