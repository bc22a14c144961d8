"""Rows of styled text that fit into a width, and short texts of figures. Pure.

Widths are in cells of a terminal. No text of a host or a rank can control the terminal or take more room than it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size

from ddp_play.cli.console import harmless

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Names of styles: a terminal chooses colour or, without colours, another attribute for each.
PLAIN, BOLD, DIM, TITLE, GOOD, BAD, WARN, NOTE, CURSOR = (
    *("", "bold", "dim", "title", "good", "bad", "warn", "note", "cursor"),
)
# A text and its style.
Span = tuple[str, str]
Row = list[Span]
# A character that adds nothing to the width can be repeated without end.
MAX_CHARS_PER_CELL = 4
NOISE = 1e-9  # of a constant metric, from taking means
LEVELS, PLAIN_LEVELS = "▁▂▃▄▅▆▇█", "_.-~=+*#"


def clean(text: str) -> str:
    """The text without characters that control a terminal, on one line; a tab is one space."""
    return harmless(text.replace("\n", " ").replace("\t", " "))


def cut(text: str, width: int) -> str:
    """The text, cut to a width; `~` at the end tells that something is missing."""
    if width <= 0:
        return ""
    text = text[: width * MAX_CHARS_PER_CELL]
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + "~"


def padded(text: str, width: int, *, right: bool = False) -> str:
    """The text in exactly this width."""
    short = cut(clean(text), width)
    space = " " * (width - cell_len(short))
    return space + short if right else short + space


def width_of(row: Iterable[Span]) -> int:
    """Cells of a row."""
    return sum(cell_len(text) for text, _ in row)


def fit(row: Row, width: int) -> Row:
    """The row, cut to a width."""
    found: Row = []
    left = width
    for text, style in row:
        short = cut(clean(text), left)
        if short:
            found.append((short, style))
            left -= cell_len(short)
    return found


def filled(row: Row, width: int, style: str) -> Row:
    """The row in one style over the whole width."""
    text = "".join(text for text, _ in fit(row, width))
    return [(padded(text, width), style)]


def ends(left: Row, right: Row, width: int, style: str) -> Row:
    """A row with a left and a right end; the right one is left out if there is no room."""
    room = width - width_of(left) - width_of(right)
    row = [*left, (" " * room, ""), *right] if room > 0 else left
    return filled(row, width, style)


def joined(parts: Sequence[Row], width: int, *, gap: str = "  ") -> Row:
    """The parts one after the other, as many as have room."""
    row: Row = []
    for part in parts:
        more: Row = [(gap, PLAIN), *part] if row else part
        if row and width_of(row) + width_of(more) > width:
            break
        row += more
    return fit(row, width)


def sparkline(values: Sequence[float], *, ascii_only: bool) -> str:
    """A small curve: one character per value, from the smallest to the largest."""
    levels = PLAIN_LEVELS if ascii_only else LEVELS
    if not values:
        return ""
    low, high = min(values), max(values)
    span = high / 2 - low / 2  # halves: the difference of two huge numbers has no value
    parts = [(value / 2 - low / 2) / span if span > NOISE * max(abs(low), abs(high)) else 0.0 for value in values]
    return "".join(levels[round(part * (len(levels) - 1)) if 0 <= part <= 1 else 0] for part in parts)


def short_bytes(count: float) -> str:
    """`12G`, `1.2M`, `340k`: powers of ten, in at most five cells."""
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            value = count / size
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return f"{count:.0f}"


def short_age(seconds: float) -> str:
    """`12s`, `3m`, `2h`, `5d`, in at most four cells."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size:
            return f"{min(seconds // size, 999):.0f}{unit}"
    return f"{max(seconds, 0):.0f}s"
