"""Lines of a large file within a budget of bytes: all of them, or whole lines from evenly spaced places."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

HEAD, LEAST_PIECE = 4096, 256
LINES_PER_PIECE = 3  # of the longest line at the beginning: two of them are whole


@dataclass(frozen=True, slots=True)
class SampledLines:
    """Lines in the order of the file, and whether others were left out."""

    lines: tuple[bytes, ...] = ()
    is_whole: bool = True

    def documents(self) -> list[dict[str, Any]]:
        """The lines that are JSON objects."""
        found = []
        for line in self.lines:
            with suppress(ValueError, RecursionError):
                document = json.loads(line)
                if isinstance(document, dict):
                    found.append(document)
        return found


def sampled_lines(path: Path, budget: int) -> SampledLines:
    """Lines of the file, of which about `budget` bytes are read. The first and the last line are always among them."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size <= max(budget, 2 * HEAD):
                return SampledLines(tuple(file.read().splitlines()))
            longest = max(map(len, file.read(HEAD).split(b"\n")))
            piece = max(LEAST_PIECE, LINES_PER_PIECE * (longest + 1))
            count = max(2, budget // piece)
            lines: list[bytes] = []
            for number in range(count):
                file.seek(max(0, size - piece) * number // (count - 1))
                lines += _whole_lines(file.read(piece), is_first=number == 0, is_last=number == count - 1)
    except OSError:
        return SampledLines()
    return SampledLines(tuple(lines), is_whole=False)


def _whole_lines(piece: bytes, *, is_first: bool, is_last: bool) -> list[bytes]:
    lines = piece.split(b"\n")
    return [line for line in lines[0 if is_first else 1 : None if is_last else -1] if line]
