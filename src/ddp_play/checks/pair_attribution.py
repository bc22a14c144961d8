"""Which host, link or direction explains the bad cells of a pair matrix. Pure; it knows no units.

A cell is a pair of hosts with a badness: the higher, the worse. A part (a host that sends, a host that receives, an
uplink) is bad if three quarters of its cells are, so that one bad partner is not taken for it. The worst part is taken
first, and what it explains counts for no other part.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ddp_play.checks.thresholds import robust_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ddp_play.checks.pair_samples import Pair

LEAST_CELLS = 2
Part = tuple[str, str]  # how it takes part (SENDS, RECEIVES, TAKES_PART), its name
SENDS, RECEIVES, TAKES_PART = "sends", "receives", "takes part"


@dataclass(frozen=True, slots=True)
class Norm:
    """What is usual: of the statistic of a part, of a cell, and how far cells scatter."""

    part: float
    cell: float
    spread: float


@dataclass(frozen=True, slots=True)
class Blame:
    """Bad parts with their level, cells that no part explains, and the limits that were used."""

    norm: Norm
    parts: Mapping[Part, float] = field(default_factory=dict)
    cells: Mapping[Pair, tuple[float, float]] = field(default_factory=dict)  # value, limit
    limits: Mapping[Part, float] = field(default_factory=dict)


def quarter(values: Sequence[float]) -> float:
    """At least three quarters of the values are this bad."""
    return sorted(values)[(len(values) - 1) // 4]


def parts_of(cells: Mapping[Pair, float], *, directed: bool = True) -> dict[Part, list[Pair]]:
    """The cells of each host, as sender and as receiver, or (not `directed`) of both."""
    found: dict[Part, list[Pair]] = {}
    for source, target in cells:
        found.setdefault((SENDS if directed else TAKES_PART, source), []).append((source, target))
        found.setdefault((RECEIVES if directed else TAKES_PART, target), []).append((source, target))
    return found


def norm_of(cells: Mapping[Pair, float], parts: Mapping[Part, Sequence[Pair]]) -> Norm:
    """The usual values, from the better half of the parts: a bad host among three spoils most cells, but few parts."""
    levels = {part: quarter([cells[cell] for cell in own]) for part, own in parts.items()}
    usual = statistics.median(levels.values())
    worse = {part for part, level in levels.items() if level > usual}
    good = [value for cell, value in cells.items() if not any(cell in parts[part] for part in worse)]
    good = good if len(good) >= LEAST_CELLS else list(cells.values())
    middle = statistics.median(good)
    return Norm(usual, middle, robust_spread(good))


def attribute(
    cells: Mapping[Pair, float],
    parts: Mapping[Part, Sequence[Pair]],
    norm: Norm,
    *,
    part_limit: Callable[[Norm, int], float],
    cell_limit: Callable[[Norm], float],
) -> Blame:
    """`part_limit`: the limit of a part with so many cells."""
    bad: dict[Part, float] = {}
    limits: dict[Part, float] = {}
    explained: dict[Pair, float] = {}
    while (worst := _worst(cells, parts, norm, (explained, bad, part_limit))) is not None:
        part, level, limit = worst
        bad[part], limits[part] = level, limit
        middle = statistics.median(cells[cell] for cell in parts[part])
        for cell in parts[part]:
            explained[cell] = max(middle, explained.get(cell, middle))
    # of a bad host's cells only those that are worse than its others by as much as a single cell must be
    levels = {cell: max(norm.cell, explained.get(cell, norm.cell)) for cell in cells}
    rows = {cell: (value, cell_limit(replace(norm, cell=levels[cell]))) for cell, value in cells.items()}
    left = {cell: (value, limit) for cell, (value, limit) in rows.items() if value > limit}
    return Blame(norm, bad, left, limits)


def _worst(
    cells: Mapping[Pair, float],
    parts: Mapping[Part, Sequence[Pair]],
    norm: Norm,
    so_far: tuple[Mapping[Pair, float], Mapping[Part, float], Callable[[Norm, int], float]],
) -> tuple[Part, float, float] | None:
    """The part that is farthest beyond its limit, its level and the limit; None if no part is."""
    explained, bad, part_limit = so_far
    found: tuple[Part, float, float] | None = None
    for part, own in parts.items():
        values = [cells[cell] for cell in own if cell not in explained]
        if part in bad or len(values) < LEAST_CELLS:
            continue
        level, limit = quarter(values), part_limit(norm, len(values))
        if level > limit and (found is None or level - limit > found[1] - found[2]):
            found = (part, level, limit)
    return found
