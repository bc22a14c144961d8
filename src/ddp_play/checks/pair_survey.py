"""Order of the measurements of a pair matrix: first pass, repetition of what was bad, the fleet without it.

Pure: `measure` carries out a round, on hosts or in a simulation.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ddp_play.checks.pair_attribution import quarter
from ddp_play.checks.pair_outcome import Evidence, Kind, Verdict
from ddp_play.checks.pair_rounds import MOST_FOR_ALL, buddy_pairs, disjoint_rounds, first_rounds, screening
from ddp_play.checks.pair_samples import ordered
from ddp_play.checks.pair_verdict import judge
from ddp_play.checks.pair_yardsticks import yardsticks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ddp_play.checks.pair_rounds import Round
    from ddp_play.checks.pair_samples import Pair, PairEnd, Sample

# A pair alone on the network is faster than in a full round by this factor: the hosts share a link.
SHARED_FACTOR = 1.25
NUM_ALONE = 2


@dataclass(frozen=True, slots=True)
class Survey:
    """Samples of the first pass and of the repetition; verdicts, and those that the repetition did not show again."""

    samples: tuple[Sample, ...]
    repeats: tuple[Sample, ...]
    verdicts: tuple[Verdict, ...]
    not_repeated: tuple[Verdict, ...] = ()
    num_rounds: int = 0


@dataclass
class _Course:
    measure: Callable[[Round], Sequence[Sample]]
    num_rounds: int = 0

    def run(self, rounds: Sequence[Round]) -> list[Sample]:
        self.num_rounds += len(rounds)
        return [sample for pairs in rounds for sample in self.measure(pairs)]


def survey(
    ends: Mapping[str, PairEnd],
    measure: Callable[[Round], Sequence[Sample]],
    *,
    records: Mapping[Pair, float] | None = None,
    seed: int = 0,
) -> Survey:
    """Measure the fleet round by round. `records`: Mb/s by (source, target) of an earlier time."""
    course, known = _Course(measure), records or {}
    rounds = first_rounds(tuple(ends), seed=seed)
    samples = course.run(rounds)
    first = judge(ends, samples, known)
    again = course.run(disjoint_rounds(pairs_to_repeat(first, ends, samples))) if first else []
    named = {host for row in first if row.kind is not Kind.INFRASTRUCTURE for host in row.hosts}
    undecided = [row for row in first if row.kind is Kind.UNCLEAR and len(ends) > MOST_FOR_ALL]

    def stays(row: Verdict) -> bool:
        return (not row.blames or set(row.hosts) <= named) and is_repeated(row, ends, again, known)

    second = judge(ends, best_of([*samples, *again]), known, stays=stays) if first and not undecided else first
    verdicts = tuple(row for row in second if stays(row))
    blamed = {host for row in verdicts if row.blames for host in row.hosts}
    rest = [host for host in ends if host not in blamed]
    full: list[Sample] = []
    if len(ends) > MOST_FOR_ALL and blamed:
        full = course.run(screening(rest, seed=seed + 1, num_rounds=1))
    verdicts += _without_suspects(ends, (samples, full), blamed)
    verdicts += _shared_link(course, rest, samples, rounds)
    return Survey(tuple(samples), (*again, *full), verdicts, _not_repeated(first, verdicts), course.num_rounds)


def _not_repeated(first: Sequence[Verdict], last: Sequence[Verdict]) -> tuple[Verdict, ...]:
    named = {host for row in last for host in row.hosts}
    return tuple(row for row in first if not set(row.hosts) & named)


def best_of(samples: Sequence[Sample]) -> list[Sample]:
    """One sample per direction, with the best of what was measured: only what is bad every time is a defect."""
    found: dict[Pair, Sample] = {}
    for sample in samples:
        key = (sample.source, sample.target)
        found[key] = _better(found[key], sample) if key in found else sample
    return list(found.values())


def _better(one: Sample, other: Sample) -> Sample:
    if one.mbps is None or other.mbps is None:
        return other if one.mbps is None else one
    faster = max(one, other, key=lambda row: row.carried_mbps or 0.0)
    cleaner = min(one, other, key=lambda row: row.loss or 0.0)
    sooner = min(one, other, key=lambda row: row.rtt_ms or 0.0)
    in_order = min(row.disorder or 0.0 for row in (one, other))
    return replace(
        faster, segments=cleaner.segments, retransmits=cleaner.retransmits, rtt_ms=sooner.rtt_ms,
        rtt_p99_ms=sooner.rtt_p99_ms, checksum_errors=min(one.checksum_errors, other.checksum_errors),
        out_of_order=round(in_order * cleaner.segments),
    )  # fmt: skip


def pairs_to_repeat(verdicts: Sequence[Verdict], ends: Mapping[str, PairEnd], samples: Sequence[Sample]) -> list[Pair]:
    """A blamed host with three of the best hosts; a blamed link or direction twice; of unclear ones some pairs."""
    named = {host for row in verdicts for host in row.hosts}
    buddies = [host for host in best_first(ends, samples) if host not in named] or list(ends)
    buddies = buddies[: max(4, len(ends) // 4)]
    found: list[Pair] = []
    links = [ordered(*row.hosts) for row in verdicts if len(row.hosts) == 2 and row.kind is not Kind.HOST]
    for row in verdicts:
        if row.kind is not Kind.HOST and len(row.hosts) == 2:
            continue
        known = {sample.pair for sample in samples}
        found += [pair for pair in buddy_pairs(row.hosts[:3], buddies, avoid=known) if pair[0] != pair[1]]
    # one host's value has several pairs behind it already; other traffic may disturb a pair twice
    return [*dict.fromkeys([*links, *found]), *dict.fromkeys(links)]


def best_first(ends: Mapping[str, PairEnd], samples: Sequence[Sample]) -> list[str]:
    """Hosts in order of the median of their rates, the fastest first; those without any are left out."""
    rates: dict[str, list[float]] = {host: [] for host in ends}
    for sample in samples:
        if sample.mbps is not None:
            rates[sample.source].append(sample.mbps)
            rates[sample.target].append(sample.mbps)
    known = {host: statistics.median(values) for host, values in rates.items() if values}
    return sorted(known, key=lambda host: -known[host])


def is_repeated(
    verdict: Verdict, ends: Mapping[str, PairEnd], again: Sequence[Sample], records: Mapping[Pair, float]
) -> bool:
    """Is one of its values beyond the limit again? A verdict about the whole fleet stays."""
    if verdict.kind is Kind.INFRASTRUCTURE or (verdict.kind is Kind.UNCLEAR and len(ends) > 2):
        return True
    own = [sample for sample in again if verdict.is_about(sample)]
    if not own:
        return not verdict.blames
    return any(_is_beyond(row, own, ends, records) for row in verdict.evidence)


def _is_beyond(
    evidence: Evidence, own: Sequence[Sample], ends: Mapping[str, PairEnd], records: Mapping[Pair, float]
) -> bool:
    if evidence.metric == "reach":
        return all(sample.unmet for sample in own)
    if any(sample.mbps is None for sample in own):
        return True  # it got worse, or the test did not run: nothing takes the verdict back
    yardstick = next(
        row for row in yardsticks(ends, records)
        if (row.metric, row.relative) == (evidence.metric, not evidence.is_known)
        and (row.relative or row.source == evidence.source)
    )  # fmt: skip
    values = [value for sample in own if (value := yardstick.badness(sample)) is not None]
    return bool(values) and quarter(values) > evidence.beyond


def _without_suspects(
    ends: Mapping[str, PairEnd], passes: tuple[Sequence[Sample], Sequence[Sample]], blamed: set[str]
) -> tuple[Verdict, ...]:
    """Are all others as fast at full size as they were before? Else the bad hosts were not the cause."""
    first, full = ([row.mbps for row in part if row.mbps and not set(row.pair) & blamed] for part in passes)
    if not full or not first:
        return ()
    before, after = statistics.median(first), statistics.median(full)
    if after >= 0.9 * before:
        return ()
    evidence = Evidence(
        "rate", f"{after:,.0f} Mb/s", f"{0.9 * before:,.0f} Mb/s", len(full), "90 % of the first pass",
        f"{before:,.0f} Mb/s before, of the same hosts",
    )  # fmt: skip
    return (Verdict(Kind.INFRASTRUCTURE, tuple(host for host in ends if host not in blamed), (evidence,)),)


def _shared_link(
    course: _Course, hosts: Sequence[str], samples: Sequence[Sample], rounds: Sequence[Round]
) -> tuple[Verdict, ...]:
    """Measure some pairs alone. If all are faster than with the others at the same time, the hosts share a link."""
    crowded = {pair for pairs in rounds if len(pairs) > 1 for pair in pairs}
    before = {(row.source, row.target): row for row in samples if row.mbps and row.pair in crowded}
    usual = sorted(
        (row for row in before.values() if set(row.pair) <= set(hosts) and not row.cpu_limited),
        key=lambda row: row.mbps or 0.0,
    )
    middle = usual[len(usual) // 2 :] + usual[: len(usual) // 2][::-1]
    chosen = list(dict.fromkeys(row.pair for row in middle))[:NUM_ALONE]
    if len(chosen) < NUM_ALONE:
        return ()
    alone = course.run([(pair,) for pair in chosen])
    gains = [(row.mbps or 0.0) / (before[cell].mbps or 1.0) for row in alone
             if (cell := (row.source, row.target)) in before]  # fmt: skip
    if not gains or min(gains) < SHARED_FACTOR:
        return ()
    rates = [before[(row.source, row.target)].mbps or 0.0 for row in alone if (row.source, row.target) in before]
    evidence = Evidence(
        "rate", f"{statistics.median(rates):,.0f} Mb/s with all pairs at once",
        f"{statistics.median(row.mbps or 0.0 for row in alone) / SHARED_FACTOR:,.0f} Mb/s", len(alone),
        f"a pair alone, less {100 - 100 / SHARED_FACTOR:.0f} %",
        f"alone: {statistics.median(row.mbps or 0.0 for row in alone):,.0f} Mb/s",
    )  # fmt: skip
    return (Verdict(Kind.INFRASTRUCTURE, tuple(hosts), (evidence,)),)
