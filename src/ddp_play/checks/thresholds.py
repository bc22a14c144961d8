"""Limits: against the other hosts, against a host's own record, and of known hardware. One file has them all.

A figure has the name of its limit, and after a colon what it is of: `link speed: eth0`.
"""

from __future__ import annotations

import functools
import math
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Collection

FILE = Path(__file__).with_name("files") / "thresholds.yml"
ANY = "any"
MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True, slots=True)
class RecordLimit:
    """How far a later value may be from the recorded one: `least` of it at least, or `most` times it at most."""

    unit: str
    source: str
    least: float | None = None
    most: float | None = None
    most_more: float = 0.0

    def of(self, recorded: float) -> float:
        """The limit of a host that has this record."""
        if self.least is not None:
            return self.least * recorded
        return max((self.most or math.inf) * recorded, recorded + self.most_more)

    def is_worse(self, now: float, recorded: float) -> bool:
        """Is the value beyond the limit?"""
        return now < self.of(recorded) if self.least is not None else now > self.of(recorded)


@dataclass(frozen=True, slots=True)
class RelativeLimit:
    """How far a host's value may be from the median: `share` of it at least, or at most `factor` times it and `more`.

    `most`: what is always well, however little others have. `z`, `least_spread`: see `robust_spread`.
    """

    unit: str
    source: str
    share: float | None = None
    factor: float | None = None
    more: float = 0.0
    most: float = 0.0
    z: float = 0.0
    least_spread: float = 0.0

    @property
    def least_share(self) -> float:
        """The part of the median that is still well. LookupError for a limit of another kind."""
        if self.share is None:
            raise LookupError(self.source)
        return self.share

    @property
    def most_times(self) -> float:
        """So many times the median are still well. LookupError for a limit of another kind."""
        if self.factor is None:
            raise LookupError(self.source)
        return self.factor

    def least_of(self, values: Collection[float]) -> float:
        """The least value of these that is still well: by the share of the median, and by how they scatter."""
        middle = statistics.median(values)
        # of the better half: bad hosts must not hide in their own scatter
        better = [value - middle for value in values if value >= middle]
        spread = max(MAD_TO_SIGMA * statistics.median(better), self.least_spread * middle)
        return min(self.least_share * middle, middle - self.z * spread)


def robust_spread(values: Collection[float]) -> float:
    """Standard deviation of values without regard to outliers: from the median absolute deviation."""
    middle = statistics.median(values)
    return MAD_TO_SIGMA * statistics.median(abs(value - middle) for value in values)


@dataclass(frozen=True, slots=True)
class Floor:
    """What known hardware has at least, for one fabric and size of messages."""

    figure: str
    sku: str
    fabric: str
    size: str
    floor: float
    unit: str
    source: str


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The content of the file."""

    records: dict[str, RecordLimit]
    floors: tuple[Floor, ...]
    relatives: dict[str, RelativeLimit] = field(default_factory=dict)

    def relative(self, figure: str) -> RelativeLimit:
        """The limit of a figure against the other hosts. LookupError for one that is not compared."""
        return self.relatives[figure]

    def record_limit(self, figure: str) -> RecordLimit | None:
        """The limit of a figure against its record; None for one that is not compared."""
        return self.records.get(figure.partition(":")[0])

    def record_share(self, figure: str) -> float:
        """The part of its record that a figure has at least. LookupError for one without such a limit."""
        limit = self.records[figure].least
        if limit is None:
            raise LookupError(figure)
        return limit

    def floor(self, figure: str, sku: str, *, fabric: str = ANY, size: str = ANY) -> Floor | None:
        """The floor of this hardware; None where nobody knows one. The longest name that fits is meant."""
        found = [row for row in self.floors if row.figure == figure and _is_in(row.sku, sku)
                 and (row.fabric, row.size) == (fabric, size)]  # fmt: skip
        return max(found, key=lambda row: len(row.sku), default=None)


def _is_in(sku: str, name: str) -> bool:
    """Is this part of the name whole words? A GH200 is no H200."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(sku)}(?![A-Za-z0-9])", name) is not None


@functools.cache
def thresholds() -> Thresholds:
    """The file that ddp-play comes with."""
    return read(FILE)


def read(path: Path) -> Thresholds:
    """A file of thresholds. TypeError or KeyError for one of another form."""
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    records = {name: RecordLimit(**row) for name, row in document["records"].items()}
    relatives = {name: RelativeLimit(**row) for name, row in document["relative"].items()}
    return Thresholds(records, tuple(Floor(**row) for row in document["floors"]), relatives)
