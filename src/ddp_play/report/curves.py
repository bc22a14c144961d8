"""Curves over time for a page: least and greatest value per column, and a band where members are many. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from operator import mul
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

COLUMNS, BAND_COLUMNS = 240, 120
MOST_CURVES = 8  # members of a panel with a curve each; of more, some are chosen and the others are a band
NUM_CHOSEN = 4
LARGEST = 1e100  # sums and scales of larger values are beyond all floats, so these count as infinite
EXACT = 2.0**53  # whole numbers from here on are not exact, and those from 2**63 on are none for a chart
Point = tuple[float, float]  # time in seconds since the run was created, value
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
class MemberSeries:
    """Values of one member, with the times in seconds since the run was created, and the seconds each stands for."""

    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    not_finite: int = 0

    def add(self, time: float, value: float, weight: float = 1.0) -> None:
        """A value at a time. Those that are not finite are counted."""
        if abs(value) <= LARGEST:
            self.times.append(time)
            self.values.append(value)
            self.weights.append(weight)
        else:
            self.not_finite += 1

    def figures(self) -> Figures | None:
        """The figures; None without a finite value."""
        values = self.values
        if not values:
            return None
        mean = sum(map(mul, values, self.weights)) / sum(self.weights)
        return Figures(values[0], values[-1], min(values), max(values), mean, self.not_finite)


def decimated(times: Sequence[float], values: Sequence[float], end: float, *, columns: int = COLUMNS) -> list[Point]:
    """Least and greatest value of each column of the time from 0 to `end`, in order of time."""
    if len(times) <= 2 * columns:
        return list(zip(times, values, strict=True))
    extremes: dict[int, tuple[Point, Point]] = {}
    for point in zip(times, values, strict=True):
        column = _column(point[0], end, columns)
        low, high = extremes.get(column, (point, point))
        if point[1] < low[1]:
            extremes[column] = (point, high)
        elif point[1] > high[1] or low is high is point:
            extremes[column] = (low, point)
    return [point for column in sorted(extremes) for point in sorted(set(extremes[column]))]


def _column(time: float, end: float, columns: int) -> int:
    column = int(time / end * columns) if end > 0 else 0
    return 0 if column < 0 else column if column < columns else columns - 1


def panel(
    title: str, unit: str, series: Mapping[Member, MemberSeries], end: float, *, first: Iterable[str] = ()
) -> dict[str, Any]:
    """Document of a panel. Of more than MOST_CURVES members, those of `first` and those far off have a curve."""
    figures = {member: found for member, row in series.items() if (found := row.figures()) is not None}
    names = list(dict.fromkeys(name for name, _ in series))
    is_few = len(names) <= MOST_CURVES
    shown = names if is_few else _chosen(figures, first)
    curves = [
        {"name": name, "attempt": attempt, **_points_document(decimated(row.times, row.values, end))}
        for (name, attempt), row in series.items()
        if name in shown and row.times
    ]
    rows = [
        {"name": name, "attempt": attempt, **_figures_document(found)}
        for (name, attempt), found in figures.items()
        if name in shown
    ]
    is_once = all(len(row.times) == 1 and not row.not_finite for row in series.values())
    return {"title": title, "unit": unit, "num_members": len(names), "is_once": is_once, "curves": curves, "rows": rows,
            "bands": [] if is_few else _bands(series, end),
            "all": _of_all(figures.values(), series.values())}  # fmt: skip


def _chosen(figures: Mapping[Member, Figures], first: Iterable[str]) -> set[str]:
    """The members of `first`, then those whose mean is farthest from the median of all."""
    means = {name: found.mean for (name, _), found in figures.items()}
    middle = statistics.median(means.values()) if means else 0.0
    wanted = [name for name in dict.fromkeys(first) if name in means]
    others = sorted((name for name in means if name not in wanted), key=lambda name: -abs(means[name] - middle))
    return set([*wanted, *others][:NUM_CHOSEN])


def _bands(series: Mapping[Member, MemberSeries], end: float) -> list[dict[str, Any]]:
    """For each attempt the least, the middle and the greatest of all members in each column."""
    found = []
    scale = BAND_COLUMNS / end if end > 0 else 0.0
    for attempt in sorted({attempt for _, attempt in series}):
        columns: list[list[float]] = [[] for _ in range(BAND_COLUMNS)]
        for (_, number), row in series.items():
            if number == attempt:
                for time, value in zip(row.times, row.values, strict=True):
                    columns[max(0, min(int(time * scale), BAND_COLUMNS - 1))].append(value)
        rows = [((at + 0.5) * end / BAND_COLUMNS, sorted(values)) for at, values in enumerate(columns) if values]
        found.append({
            "attempt": attempt, "times": [_rounded(time) for time, _ in rows],
            "low": [_rounded(values[0]) for _, values in rows], "high": [_rounded(values[-1]) for _, values in rows],
            "middle": [_rounded(values[len(values) // 2]) for _, values in rows],
        })  # fmt: skip
    return found


def _of_all(figures: Iterable[Figures], series: Iterable[MemberSeries]) -> dict[str, Any]:
    known, not_finite = list(figures), sum(one.not_finite for one in series)
    if not known:
        return {"low": None, "high": None, "mean": None, "not_finite": not_finite}
    return {
        "low": _rounded(min(row.low for row in known)), "high": _rounded(max(row.high for row in known)),
        "mean": _rounded(statistics.fmean(row.mean for row in known)), "not_finite": not_finite,
    }  # fmt: skip


def _points_document(points: Sequence[Point]) -> dict[str, Any]:
    return {"times": [_rounded(time) for time, _ in points], "values": [_rounded(value) for _, value in points]}


def _figures_document(figures: Figures) -> dict[str, Any]:
    numbers = {name: _rounded(getattr(figures, name)) for name in ("first", "last", "low", "high", "mean")}
    return {**numbers, "not_finite": figures.not_finite}


def _rounded(value: float) -> float:
    """Five significant digits: more than a chart shows, and a third of the characters."""
    return round(value) if 1e5 <= abs(value) < EXACT else float(f"{value:.5g}")
