"""What is judged of a pair matrix (rate, latency, loss, checksum errors), and the limits with their origin. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.checks.pair_attribution import Norm
from ddp_play.checks.thresholds import thresholds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ddp_play.checks.pair_samples import Pair, PairEnd, Sample
    from ddp_play.checks.thresholds import RelativeLimit

# A host is slow below this part of the median host, one direction below that part of the median direction. The bands
# and Z were chosen with tests/unit/checks/simulated_fleet.py; docs/checks-network.md has the rates.
_HOST, _DIRECTION, _STARVED, _LOSS, _DISORDER, _TRIP = (
    thresholds().relative(name)
    for name in (
        "rate of a host",
        "rate of a direction",
        "rate limited by CPUs",
        "retransmits",
        "out of order",
        "round trip",
    )
)
HOST_SHARE, DIRECTION_SHARE, STARVED_SHARE = _HOST.least_share, _DIRECTION.least_share, _STARVED.least_share
Z, LEAST_SPREAD = _HOST.z, _HOST.least_spread
LINK_SHARE = 0.80
RTT_FACTOR, RTT_SLACK_MS = _TRIP.most_times, _TRIP.more
NO_NORM = Norm(0.0, 0.0, 0.0)
OWN_RECORD = "its own record"


@dataclass(frozen=True, slots=True)
class Yardstick:
    """One way to judge. `badness` of a sample: None if it says nothing here; `shown`: a badness as text."""

    metric: str
    source: str  # where the limit comes from
    badness: Callable[[Sample], float | None]
    part_limit: Callable[[Norm, int], float]
    cell_limit: Callable[[Norm], float]
    shown: Callable[[float], str]
    directed: bool = True
    relative: bool = True  # compared with the others; else with something known before


def is_starved(samples: Sequence[Sample]) -> bool:
    """Was a CPU the limit of most rates? Then it is not known what the network carries."""
    rates = [sample for sample in samples if sample.mbps is not None]
    return 2 * sum(sample.cpu_limited for sample in rates) > len(rates)


def yardsticks(
    ends: Mapping[str, PairEnd], records: Mapping[Pair, float], *, starved: bool = False
) -> tuple[Yardstick, ...]:
    """All that can be judged here, causes before their effects. `records`: Mb/s by (source, target) of an earlier time.

    `starved`: most rates say only what the network carries at least, so that a rate must be far below them.
    """
    found = [_checksums(), _loss(), _disorder(), _latency(), _rate(ends, STARVED_SHARE if starved else HOST_SHARE)]
    if any(end.link_mbps for end in ends.values()):
        found.append(_share_of("link speed", LINK_SHARE, lambda cell: link_speed(ends, cell)))
    if records:
        found.append(_share_of(OWN_RECORD, thresholds().record_share("rate"), records.get))
    return tuple(found)


def link_speed(ends: Mapping[str, PairEnd], cell: Pair) -> float | None:
    """Mb/s of the slower end; None unless both are known."""
    speeds = [ends[host].link_mbps for host in cell]
    return min((speed for speed in speeds if speed), default=None) if all(speeds) else None


def _rate(ends: Mapping[str, PairEnd], share: float) -> Yardstick:
    """Rate against the median. Where all link speeds are known, its part of the link: links may differ on purpose."""
    speeds = {end.link_mbps for end in ends.values()}
    by_link = len(speeds) > 1 and all(speeds)

    def badness(sample: Sample) -> float | None:
        if not (mbps := sample.carried_mbps):
            return None
        link = link_speed(ends, (sample.source, sample.target)) if by_link else None
        return -math.log(mbps / (link or 1.0))

    def part_limit(norm: Norm, num_cells: int) -> float:
        z = Z * max(norm.spread, LEAST_SPREAD) / math.sqrt(min(num_cells, 4))
        return norm.part + max(-math.log(share), z)

    def cell_limit(norm: Norm) -> float:
        return norm.cell + max(-math.log(min(share, DIRECTION_SHARE)), Z * max(norm.spread, LEAST_SPREAD))

    shown = _percent_of_link if by_link else _mbps
    source = f"median of the hosts less {100 - 100 * share:.0f} %, and {Z:g} robust standard deviations"
    return Yardstick("rate", source, badness, part_limit, cell_limit, shown)


def _share_of(what: str, share: float, expected: Callable[[Pair], float | None]) -> Yardstick:
    def badness(sample: Sample) -> float | None:
        full = expected((sample.source, sample.target))
        mbps = sample.carried_mbps
        return -math.log(mbps / full) if mbps and full else None

    limit = -math.log(share)
    source = f"{share:.0%} of {what}"
    return Yardstick(
        "rate", source, badness, lambda _norm, _num: limit,
        lambda norm: max(limit, norm.cell - math.log(DIRECTION_SHARE)),
        lambda x: f"{math.exp(-x):.0%} of {what}", relative=False,
    )  # fmt: skip


def _loss() -> Yardstick:
    return _part_of_segments("retransmits", _LOSS, lambda sample: sample.loss)


def _disorder() -> Yardstick:
    return _part_of_segments("out of order", _DISORDER, lambda sample: sample.disorder)


def _part_of_segments(metric: str, rule: RelativeLimit, part: Callable[[Sample], float | None]) -> Yardstick:
    def limit(usual: float) -> float:
        return max(rule.most, rule.most_times * usual)

    return Yardstick(
        metric, f"{rule.most:.1%} of the segments, and {rule.most_times:g} times the median",
        part, lambda norm, _num: limit(norm.part), lambda norm: limit(norm.cell), lambda x: f"{x:.2%}",
    )  # fmt: skip


def _checksums() -> Yardstick:
    return Yardstick(
        "checksum errors", "none is normal", lambda sample: None if sample.mbps is None else sample.checksum_errors,
        lambda _norm, _num: 0.5, lambda norm: max(0.5, _LOSS.most_times * norm.cell), lambda x: f"{x:.0f} segments",
        relative=False,
    )  # fmt: skip


def _latency() -> Yardstick:
    def limit(usual: float) -> float:
        return max(RTT_FACTOR * usual, usual + RTT_SLACK_MS)

    return Yardstick(
        "latency", f"{RTT_FACTOR:g} times the median, and {RTT_SLACK_MS:g} ms more", lambda sample: sample.rtt_ms,
        lambda norm, _num: limit(norm.part), lambda norm: limit(norm.cell), lambda x: f"{x:.3g} ms", directed=False,
    )  # fmt: skip


def _mbps(badness: float) -> str:
    return f"{math.exp(-badness):,.0f} Mb/s"


def _percent_of_link(badness: float) -> str:
    return f"{math.exp(-badness):.0%} of link speed"
