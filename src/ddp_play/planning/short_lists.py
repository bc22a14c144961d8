"""Lists in a message that name the first few of many: `h1, h2 and 5 more`. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def short_list(rows: Iterable[str], most: int = 4, *, separator: str = ", ") -> str:
    """The first `most` of the rows, and how many more there are."""
    texts = list(rows)
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return separator.join(texts[:most]) + more
