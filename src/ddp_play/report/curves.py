"""Curves over time for a page: least and greatest value per column, and a band where members are many. Pure."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

COLUMNS = 240
MOST_CURVES = 8  # members of a panel with a curve each; of more, some are chosen and the others are a band
NUM_CHOSEN = 4
Point = tuple[float, float, float]  # time in seconds since the run was created, value, seconds that it stands for
Member = tuple[str, int]  # a rank or a host, and the attempt


@dataclass(frozen=True, slots=True)
class Figures:
    """A member's values in figures. `not_finite`: how many were NaN or infinite; they are in no other figure."""

    first: float
    last: float
    low: float
    high: float
    mean: float
    not_finite: int = 0


@dataclass(slots=True)
class Series:
    """Values of one member. Those that are not finite are counted."""

    points: list[Point] = field(default_factory=list)
    not_finite: int = 0

    def add(self, time: float, value: float, weight: float = 1.0) -> None:
        """A value at a time."""
        if math.isfinite(value):
            self.points.append((time, value, weight))
        else:
            self.not_finite += 1

    def figures(self) -> Figures | None:
        """The figures; None without a finite value."""
        if not self.points:
            return None
        values = [value for _, value, _ in self.points]
        weight = sum(weight for _, _, weight in self.points)
        mean = sum(value * weight for _, value, weight in self.points) / weight if weight else statistics.fmean(values)
        return Figures(values[0], values[-1], min(values), max(values), mean, self.not_finite)


def decimated(points: Sequence[Point], end: float, *, columns: int = COLUMNS) -> list[tuple[float, float]]:
    """Least and greatest value of each column of the time from 0 to `end`, in order of time."""
    if len(points) <= 2 * columns:
        return [(time, value) for time, value, _ in points]
    extremes: dict[int, tuple[Point, Point]] = {}
    for point in points:
        column = _column(point[0], end, columns)
        low, high = extremes.get(column, (point, point))
        extremes[column] = (point if point[1] < low[1] else low, point if point[1] > high[1] else high)
    found: list[tuple[float, float]] = []
    for column in sorted(extremes):
        low, high = sorted(extremes[column])
        found += [(low[0], low[1])] if low == high else [(low[0], low[1]), (high[0], high[1])]
    return found


def _column(time: float, end: float, columns: int) -> int:
    return min(columns - 1, max(0, int(time / end * columns))) if end > 0 else 0


def panel(
    title: str, unit: str, series: Mapping[Member, Series], end: float, *, first: Iterable[str] = ()
) -> dict[str, Any]:
    """Document of a panel. Of more than MOST_CURVES members, those of `first` and those far off have a curve."""
    names = list(dict.fromkeys(name for name, _ in series))
    shown = names if len(names) <= MOST_CURVES else _chosen(series, names, first)
    curves = [
        {"name": name, "attempt": attempt, **_points_document(decimated(row.points, end))}
        for (name, attempt), row in series.items()
        if name in shown and row.points
    ]
    bands = [] if len(names) <= MOST_CURVES else _bands(series, end)
    rows = [
        {"name": name, "attempt": attempt, **_figures_document(figures)}
        for (name, attempt), row in series.items()
        if name in shown and (figures := row.figures())
    ]
    return {"title": title, "unit": unit, "num_members": len(names), "curves": curves, "bands": bands, "rows": rows,
            "all": _of_all(series)}  # fmt: skip


def _chosen(series: Mapping[Member, Series], names: Sequence[str], first: Iterable[str]) -> list[str]:
    """The members of `first`, then those whose mean is farthest from the median of all."""
    means = {name: figures.mean for (name, _), row in series.items() if (figures := row.figures())}
    middle = statistics.median(means.values()) if means else 0.0
    wanted = [name for name in dict.fromkeys(first) if name in means]
    others = sorted((name for name in means if name not in wanted), key=lambda name: -abs(means[name] - middle))
    kept = set([*wanted, *others][:NUM_CHOSEN])
    return [name for name in names if name in kept]


def _bands(series: Mapping[Member, Series], end: float) -> list[dict[str, Any]]:
    """For each attempt the least, the middle and the greatest of all members in each column."""
    found = []
    for attempt in sorted({attempt for _, attempt in series}):
        columns: dict[int, list[float]] = defaultdict(list)
        for (_, number), row in series.items():
            if number == attempt:
                for time, value, _ in row.points:
                    columns[_column(time, end, COLUMNS)].append(value)
        rows = [((column + 0.5) * end / COLUMNS, sorted(columns[column])) for column in sorted(columns)]
        found.append({
            "attempt": attempt, "times": [_rounded(time) for time, _ in rows],
            "low": [_rounded(values[0]) for _, values in rows], "high": [_rounded(values[-1]) for _, values in rows],
            "middle": [_rounded(values[len(values) // 2]) for _, values in rows],
        })  # fmt: skip
    return found


def _of_all(series: Mapping[Member, Series]) -> dict[str, Any]:
    figures = [row for one in series.values() if (row := one.figures())]
    not_finite = sum(one.not_finite for one in series.values())
    if not figures:
        return {"low": None, "high": None, "mean": None, "not_finite": not_finite}
    return {
        "low": _rounded(min(row.low for row in figures)), "high": _rounded(max(row.high for row in figures)),
        "mean": _rounded(statistics.fmean(row.mean for row in figures)), "not_finite": not_finite,
    }  # fmt: skip


def _points_document(points: Sequence[tuple[float, float]]) -> dict[str, Any]:
    return {"times": [_rounded(time) for time, _ in points], "values": [_rounded(value) for _, value in points]}


def _figures_document(figures: Figures) -> dict[str, Any]:
    numbers = {name: _rounded(getattr(figures, name)) for name in ("first", "last", "low", "high", "mean")}
    return {**numbers, "not_finite": figures.not_finite}


def _rounded(value: float) -> float:
    """Five significant digits: more than a chart shows, and a third of the characters."""
    return float(f"{value:.5g}") if abs(value) < 1e5 else round(value)
