"""End of a growing log for a screen: its last lines, at a bounded cost however fast and however long they are."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from ddp_play.bundle.file_tail import shown

if TYPE_CHECKING:
    from pathlib import Path

MAX_LINES = 2000
# More than this is never read at once: what is before it is skipped.
WINDOW_BYTES = 256 * 1024


class LogEnd:
    """The last lines of a log."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._complete: deque[str] = deque(maxlen=MAX_LINES)
        self._rest = b""  # of a line without an end
        self._offset = 0

    @property
    def lines(self) -> list[str]:
        """The lines that are known, with one that is not complete."""
        return [*self._complete, *([shown(self._rest)] if self._rest else [])]

    def refresh(self) -> list[str]:
        """Read what is new; return the new complete lines. A file that became shorter is read again."""
        data = self._read()
        if not data:
            return []
        *complete, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-WINDOW_BYTES:]
        new = [shown(line) for line in complete[-MAX_LINES:]]
        self._complete.extend(new)
        return new

    def _read(self) -> bytes:
        try:
            with self.path.open("rb") as handle:
                size = handle.seek(0, 2)
                if size < self._offset:
                    self._complete.clear()
                    self._rest, self._offset = b"", 0
                begin = handle.seek(max(self._offset, size - WINDOW_BYTES))
                data = handle.read(WINDOW_BYTES)
        except OSError:
            return b""
        if begin > self._offset:  # skipped: the rest of a line of before is no line
            self._complete.clear()
            self._rest, data = b"", data.partition(b"\n")[2] or data
        self._offset = begin + len(data) if begin == self._offset else max(self._offset, size)
        return data
