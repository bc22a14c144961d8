"""Ends of real logs in tails/: where each comes from and what it is; two header lines, then the text."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

DIRECTORY = Path(__file__).parent / "tails"
# What the end of a log shows: a lost peer, an error of the rank's own, the answer to a signal, or nothing.
ENDS = ("peer", "own", "told", "silent")


@dataclass(frozen=True)
class Tail:
    """One of them."""

    name: str
    source: str
    end: str
    text: str


def read(path: Path) -> Tail:
    """Raises ValueError if a header line is missing."""
    source, end, text = path.read_text(encoding="utf-8").split("\n", 2)
    if not source.startswith("source: ") or not end.startswith("end: ") or not text.startswith("\n"):
        raise ValueError(f"{path.name}: two header lines and an empty one must come first")
    return Tail(path.stem, source.partition(": ")[2], end.partition(": ")[2], text[1:])


TAILS = {tail.name: tail for tail in map(read, sorted(DIRECTORY.glob("*.txt")))}
