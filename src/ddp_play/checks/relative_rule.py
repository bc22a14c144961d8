"""A host's value against those of the other hosts: which are too low, by a limit of the file of thresholds. Pure."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.checks.thresholds import thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST_TO_COMPARE = 3  # of two that differ nobody knows which is wrong


@dataclass(frozen=True, slots=True)
class Compared:
    """Names whose value is too low, the least value that is well, and what is usual. `source`: of the limit."""

    low: tuple[str, ...]
    least: float
    usual: float
    others: float  # median of those that are well
    source: str
    unit: str


def too_low(values: Mapping[str, float], figure: str) -> Compared:
    """Values by name against their median. Of half of them and more nobody is named. LookupError for another figure."""
    rule = thresholds().relative(figure)
    least, usual = rule.least_of(values.values()), statistics.median(values.values())
    low = tuple(name for name, value in values.items() if value < least)
    if len(values) < LEAST_TO_COMPARE or 2 * len(low) >= len(values):
        low = ()
    others = statistics.median(value for name, value in values.items() if name not in low)
    share = f"{rule.least_share:.0%} of the median of {len(values)}"
    source = f"{share}, and {rule.z:g} robust standard deviations; {rule.source}"
    return Compared(low, least, usual, others, source, rule.unit)
