"""Texts of hosts, ranks and users for a page: without characters that change what the page seems to say. Pure."""

from __future__ import annotations

import re
from typing import Any

# Control characters, those that reverse the direction of text or cannot be seen, and halves of surrogate pairs.
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)
# Marks above and below a letter (Latin, Arabic, Thai). Dozens of them cover the lines around, and widen the page.
MARK = "[\u0300-\u036f\u0483-\u0489\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
MARK += "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
STACKED = re.compile(f"({MARK}{{4}}){MARK}+")
# Colours and cursor movements of terminals: ECMA-48 sequences, and titles of windows.
TERMINAL = re.compile(r"\x1b(?:\[[0-9:;<=>?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
LONGEST_LINE = 2000
LONGEST_TEXT = 50_000  # twice the longest end of a log


def printable(value: Any) -> Any:
    """Texts without characters that a page must not have, cut where they are endless; other values unchanged."""
    if type(value) is not str:
        return value
    cut = len(value) - LONGEST_TEXT
    text = value if cut <= 0 else f"{value[:LONGEST_TEXT]} ... {cut} more characters"
    if not text.isascii():
        text = STACKED.sub("\\1\N{REPLACEMENT CHARACTER}", text)
    return UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def log_lines(data: bytes, *, longest: int = LONGEST_LINE) -> list[str]:
    """Lines of a log as text: without colours, a progress bar as it looked last, long lines cut."""
    text = TERMINAL.sub("", data.decode("utf-8", "replace"))
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and not lines[-1]:
        del lines[-1]
    return [_line(line, longest) for line in lines]


def _line(line: str, longest: int) -> str:
    shown = line.rstrip("\r").rpartition("\r")[2]  # what a terminal shows after a return to the beginning of the line
    cut = len(shown) - longest
    return str(printable(shown if cut <= 0 else f"{shown[:longest]} ... {cut} more characters"))
