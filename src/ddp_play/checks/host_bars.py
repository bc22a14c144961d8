"""Figures of all hosts as bars, with the band in which the values of equal hosts lie. Pure.

The band is as wide as the checks are: what is outside is what they name.
"""

from __future__ import annotations

import math
import re
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.checks.fleet import NotRun
from ddp_play.checks.pair_samples import CPU_LIMIT
from ddp_play.checks.pair_yardsticks import HOST_SHARE, LEAST_SPREAD, RTT_FACTOR, RTT_SLACK_MS, STARVED_SHARE, Z
from ddp_play.checks.thresholds import robust_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ddp_play.checks.fleet import CheckedHost, Fleet

MOST_BARS = 64
# A bar is on a scale that ends here at the latest, as a multiple of the longest one, wherever its band ends.
SCALE = 1.25
LOW, HIGH = (True, False), (False, True)  # on which side of the band a value is worse


@dataclass(frozen=True, slots=True)
class Bar:
    """A host's value as a length, in percent of the scale, and whether it is worse than the band of the fleet."""

    host: str
    text: str
    percent: float
    is_odd: bool


@dataclass(frozen=True, slots=True)
class BarGroup:
    """One figure of all hosts, and the band in which the values of a fleet of equals lie."""

    title: str
    bars: tuple[Bar, ...]
    low_percent: float
    high_percent: float
    band: str
    num_left_out: int = 0


@dataclass(frozen=True, slots=True)
class Figure:
    """What a group of bars shows. `slack`: how far from the median a value is still like the others, by the median."""

    title: str
    shown: Callable[[float], str]
    slack: Callable[[float], float]
    read: Callable[[CheckedHost], float] | None = None
    spread: float = LEAST_SPREAD  # part of the median that equal hosts scatter at least
    worse: tuple[bool, bool] = (True, True)  # below the band, above it


def _part(share: float) -> Callable[[float], float]:
    return lambda median: (1 - share) * median


def _mbps(value: float) -> str:
    return f"{value:,.0f} Mb/s"


def _ms(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 1000 else f"{value:.3g} ms"


# Slack as in the checks: docs/checks.md.
READ: tuple[Figure, ...] = (
    Figure("CPUs", "{:.0f}".format, _part(1.0), lambda host: float(host.read("cpu")["usable"]), 0.0),
    Figure("CPU clock limit", "{:,.0f} MHz".format, _part(0.95), lambda host: float(host.read("governor")["max_mhz"]),
           worse=LOW),
    Figure("Memory", "{:,.4g} GiB".format, _part(0.95), lambda host: host.read("memory")["total_mib"] / 1024,
           worse=LOW),
    Figure("GPUs", "{:.0f}".format, _part(1.0), lambda host: float(len(host.known.gpus)), 0.0),
    Figure("Clock offset", _ms, lambda _median: 500.0, lambda host: 1000 * abs(host.clock["offset_s"]),
           worse=HIGH),
    Figure("Slowest name", _ms, lambda _median: 1000.0,
           lambda host: 1000 * max(row["took_s"] for row in host.read("names").values()), worse=HIGH),
)  # fmt: skip


def natural(name: str) -> list[tuple[float, str]]:
    """Key of an order in which h2 comes before h10."""
    return [(int(part), "") if part.isdecimal() else (math.inf, part) for part in re.split(r"(\d{1,9})", name) if part]


def bar_groups(fleet: Fleet) -> tuple[BarGroup, ...]:
    """Figures of all hosts, of which at least two have one."""
    rows = fleet.matrix["directions"] if fleet.matrix else []
    starved = 2 * sum(row.get("busy", 0.0) > CPU_LIMIT for row in rows) > sum(bool(row["mbps"]) for row in rows)
    rate = _part(STARVED_SHARE if starved else HOST_SHARE)
    groups = []
    for role, title in (("source", "Sends, median"), ("target", "Receives, median")):
        groups.append(_group(Figure(title, _mbps, rate, worse=LOW), _medians(rows, role, "mbps")))
    trip = Figure("Round trip, median", _ms, lambda median: max((RTT_FACTOR - 1) * median, RTT_SLACK_MS), worse=HIGH)
    groups.append(_group(trip, _medians(rows, "source", "rtt_ms")))
    for figure in READ:
        values = {host.name: value for host in fleet.reached if (value := _value(host, figure)) is not None}
        groups.append(_group(figure, values))
    return tuple(group for group in groups if group is not None)


def _value(host: CheckedHost, figure: Figure) -> float | None:
    try:
        value = figure.read(host) if figure.read else None
    except (NotRun, LookupError, TypeError, ValueError, AttributeError):
        return None
    return value if value is not None and math.isfinite(value) and value >= 0 else None


def _medians(rows: Sequence[Mapping[str, Any]], role: str, field: str) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.get(field):
            found.setdefault(row[role], []).append(float(row[field]))
    return {host: statistics.median(values) for host, values in found.items()}


def _group(figure: Figure, values: Mapping[str, float]) -> BarGroup | None:
    """Bars of a figure, those far from the median first where there are too many; None if it says nothing."""
    if len(values) < 2 or not any(values.values()):
        return None
    median = statistics.median(values.values())
    spread = max(robust_spread(values.values()),
                 figure.spread * median)  # fmt: skip
    width = max(Z * spread, figure.slack(median))
    low, high = max(0.0, median - width), median + width
    outside = [side for side, is_worse in zip(((True, False), (False, True)), figure.worse, strict=True) if is_worse]
    most = max(*values.values(), min(high, SCALE * max(values.values())))
    kept = set(sorted(values, key=lambda host: -abs(values[host] - median))[:MOST_BARS])
    bars = tuple(
        Bar(host, figure.shown(value), 100 * value / most, (value < low, value > high) in outside)
        for host, value in sorted(values.items(), key=lambda row: natural(row[0]))
        if host in kept
    )
    band = f"{figure.shown(low)} to {figure.shown(high)}"
    return BarGroup(figure.title, bars, 100 * low / most, min(100.0, 100 * high / most), band, len(values) - len(bars))
