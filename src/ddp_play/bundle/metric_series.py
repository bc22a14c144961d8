"""Values of a metric over a run: bounded history, rate per second. Pure."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# A full history is halved: two neighbours become their mean.
MAX_POINTS = 512
MAX_METRICS = 32
RATE_WINDOW_S = 30.0
# Keys that count or name something; they are no curves.
NO_CURVES = frozenset({"time", "rank", "step", "epoch", "attempt", "local_rank", "world_size"})


@dataclass
class Series:
    """History of one metric, evenly thinned, with its newest value."""

    values: list[float] = field(default_factory=list)
    last: float = math.nan
    _stride: int = 1  # values that one point stands for
    _sum: float = 0.0
    _num: int = 0

    def add(self, value: float) -> None:
        """Append a value. One that is not finite is the newest value, and no part of the history."""
        self.last = value
        if not math.isfinite(value):
            return
        self._sum, self._num = self._sum + value, self._num + 1
        if self._num < self._stride:
            return
        self.values.append(self._sum / self._num)
        self._sum, self._num = 0.0, 0
        if len(self.values) >= MAX_POINTS:
            pairs = zip(self.values[::2], self.values[1::2], strict=True)
            self.values = [first / 2 + second / 2 for first, second in pairs]
            self._stride *= 2

    def points(self, number: int) -> list[float]:
        """At most `number` points of the whole history: means of equal parts. The last one is the newest value."""
        values = [*self.values, *([self.last] if self._num and math.isfinite(self.last) else [])]
        if len(values) <= number:
            return values
        bounds = [len(values) * part // number for part in range(number + 1)]
        return [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(bounds)]


class Metrics:
    """What one rank reported: series of its numbers, and steps per second."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}
        self._steps: list[tuple[float, float]] = []  # (time, step) of the last RATE_WINDOW_S

    def add(self, rows: Iterable[Mapping[str, Any]], *, received: float | None) -> None:
        """Take in new rows. `received`: when, for rows without a time; None if they were there before the view."""
        for row in rows:
            for key, value in row.items():
                known = as_float(value)
                if known is not None and (key in self.series or len(self.series) < MAX_METRICS):
                    self.series.setdefault(key, Series()).add(known)
            moment = row["time"] if is_number(row.get("time")) else received
            if moment is not None and is_number(row.get("step")):
                self._note_step(float(moment), float(row["step"]))

    def _note_step(self, moment: float, step: float) -> None:
        steps = [(at, done) for at, done in self._steps if 0 <= moment - at <= RATE_WINDOW_S and done <= step]
        if steps and steps[-1][0] == moment:
            steps.pop()
        self._steps = [*steps, (moment, step)]

    def steps_per_s(self) -> float | None:
        """Over the last RATE_WINDOW_S of reported steps; None if it is unknown."""
        if len(self._steps) < 2:
            return None
        (begin, first), (end, last) = self._steps[0], self._steps[-1]
        return (last - first) / (end - begin) if end > begin else None

    def curves(self) -> list[str]:
        """Names of the metrics that are curves, `loss` first."""
        return sorted(set(self.series) - NO_CURVES, key=lambda name: (name != "loss", name))


def as_float(value: Any) -> float | None:
    """The number, which may be infinite or NaN; None if it is none. A rank may write anything."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:  # JSON has integers beyond all floats
        return math.inf if value > 0 else -math.inf


def is_number(value: Any) -> TypeGuard[int | float]:
    """Is it a finite number?"""
    known = as_float(value)
    return known is not None and math.isfinite(known)
