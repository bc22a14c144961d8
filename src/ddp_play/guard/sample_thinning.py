"""Thinning of a host's samples: recent rows as they were taken, older ones as means over longer intervals. Pure.

The guard thins its file on the host, the supervisor the bundle's, with the same rules.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

Row = Dict[str, Any]
Weighted = List[Tuple[Any, float]]  # values and the seconds that each stands for
# Age in seconds from which rows cover at least this many seconds. A week of samples is about 2,800 rows.
LEVELS = ((15 * 60, 10), (2 * 3600, 60), (12 * 3600, 300), (3 * 86400, 1200))
# Fields that say what a row covers; the others are means over it. A row ends at `t` on the controller's clock, and at
# `up`, seconds since the host booted, on the host's.
COVERED, END, HOST_END, ATTEMPT = "s", "t", "up", "attempt"
# Rows with a longer gap between them stay apart, so that a row never covers time in which nothing was sampled.
MAX_GAP_S = 1.0


def thinned(rows: Sequence[Row], now: float, clock: str = END) -> List[Row]:
    """The rows in the order of their ends, old ones merged; `clock`: the field with a row's end, END or HOST_END.

    `now` is the time on that clock. A merged row has the time-weighted mean of each number, over the rows that have it.
    """
    kept: List[Row] = []
    group: List[Row] = []
    place: Optional[Tuple[int, int, Any]] = None
    for row in sorted(rows, key=lambda each: float(each[clock])):
        here = _place(row, now, clock)
        if group and here is not None and here == place and _adjoin(group[-1], row, clock):
            group.append(row)
            continue
        kept += _merged(group)
        group, place = [row], here
    return kept + _merged(group)


def _place(row: Row, now: float, clock: str) -> Optional[Tuple[int, int, Any]]:
    """Interval of the row's level that its middle is in; None if the row stays as it is."""
    length = max((level for age, level in LEVELS if now - row[clock] >= age), default=0)
    if row[COVERED] >= length:
        return None
    middle = row[clock] - row[COVERED] / 2
    return length, math.floor(middle / length), row.get(ATTEMPT)


def _adjoin(earlier: Row, later: Row, clock: str) -> bool:
    gap_s = later[clock] - later[COVERED] - earlier[clock]
    return bool(gap_s <= max(MAX_GAP_S, later[COVERED]))


def _merged(rows: Sequence[Row]) -> List[Row]:
    if len(rows) < 2:
        return list(rows)
    mean = _mean([(row, float(row[COVERED])) for row in rows])
    values = {name: value for name, value in mean.items() if name not in (COVERED, END, HOST_END, ATTEMPT)}
    fixed = {name: rows[-1][name] for name in (END, HOST_END, ATTEMPT) if name in rows[-1]}
    return [{**fixed, COVERED: round(sum(row[COVERED] for row in rows), 3), **values}]


def _mean(values: Weighted) -> Any:
    """Weighted mean of numbers, by name of objects and by position of lists; what is no number is the last value."""
    last = values[-1][0]
    if isinstance(last, dict):
        return {name: _mean(_under(name, values)) for name in _names(values)}
    if isinstance(last, list):
        alike = [pair for pair in values if isinstance(pair[0], list) and len(pair[0]) == len(last)]
        return [_mean([(value[at], weight) for value, weight in alike]) for at in range(len(last))]
    numbers = [pair for pair in values if _is_number(pair[0])]
    total = sum(weight for _, weight in numbers)
    if not _is_number(last) or total <= 0:
        return last
    return rounded(sum(value * weight for value, weight in numbers) / total)


def _names(values: Weighted) -> List[str]:
    return list(dict.fromkeys(name for value, _ in values if isinstance(value, dict) for name in value))


def _under(name: str, values: Weighted) -> Weighted:
    return [(value[name], weight) for value, weight in values if isinstance(value, dict) and name in value]


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def rounded(value: float) -> float:
    """Three decimals of small numbers, none of large ones: a row is read by people, and many are kept."""
    return round(value, 3) if abs(value) < 1000 else round(value)
