"""A simulated fleet with known defects, for the rules of the network matrix: its rates of detection and false alarms.

Rates scatter as those of healthy parts do: by host, by path, and from one measurement to the next, 4 % together; one
measurement in a hundred is disturbed by other traffic and loses a tenth to a half.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddp_play.checks.pair_outcome import Kind
from ddp_play.checks.pair_samples import PairEnd, Sample, not_run
from ddp_play.checks.pair_survey import Survey, survey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddp_play.checks.pair_outcome import Verdict
    from ddp_play.checks.pair_rounds import Round

FULL_MBPS = 9400.0
HOST_SPREAD, PATH_SPREAD, TIME_SPREAD = 0.015, 0.015, 0.03
DISTURBED = 0.01
RTT_MS, RTT_SPREAD = 0.08, 0.15
SEGMENTS = 100_000


@dataclass
class Fleet:
    """Factors of rates by host and direction, loss by direction, delay by host. `link_mbps`: as drivers report it."""

    num: int
    seed: int
    sends: dict[str, float] = field(default_factory=dict)
    receives: dict[str, float] = field(default_factory=dict)
    paths: dict[tuple[str, str], float] = field(default_factory=dict)
    lossy: dict[str, float] = field(default_factory=dict)
    delays_ms: dict[str, float] = field(default_factory=dict)
    dead_paths: set[tuple[str, str]] = field(default_factory=set)
    shared_mbps: float = 0.0  # all pairs of a round together; 0: no limit
    link_mbps: float | None = None

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.hosts = [f"h{number:03}" for number in range(1, self.num + 1)]
        self.host_factor = {host: self.random.gauss(1, HOST_SPREAD) for host in self.hosts}

    def ends(self) -> dict[str, PairEnd]:
        """The ends of the measurements."""
        return {host: PairEnd(host, link_mbps=self.link_mbps, mtu=1500) for host in self.hosts}

    def pick(self, number: int) -> list[str]:
        """Some hosts, by the seed."""
        return random.Random(self.seed + 1).sample(self.hosts, number)

    def measure(self, pairs: Round) -> list[Sample]:
        """A round, as `survey` asks for it."""
        rows: list[Sample] = []
        for one, other in pairs:
            if (one, other) in self.dead_paths:
                rows += not_run(one, other, "Connection timed out", unmet=True)
            else:
                rows += [self._sample(one, other, len(pairs)), self._sample(other, one, len(pairs))]
        return rows

    def _sample(self, source: str, target: str, num_pairs: int) -> Sample:
        noise = self.random
        path = random.Random(f"{self.seed} {source} {target}").gauss(1, PATH_SPREAD)
        ceiling = min(
            self.sends.get(source, 1.0), self.receives.get(target, 1.0), self.paths.get((source, target), 1.0)
        )
        rate = FULL_MBPS * ceiling * min(self.host_factor[source], self.host_factor[target]) * path
        if self.shared_mbps:
            rate = min(rate, self.shared_mbps / num_pairs)
        rate *= noise.gauss(1, TIME_SPREAD)
        if noise.random() < DISTURBED:
            rate *= noise.uniform(0.5, 0.9)
        loss = self.lossy.get(source, 0.0)
        sent_again = sum(noise.random() < 1e-5 + loss for _ in range(SEGMENTS // 100)) * 100 if loss else 0
        delay = self.delays_ms.get(source, 0.0) + self.delays_ms.get(target, 0.0)
        rtt = RTT_MS * max(0.5, noise.gauss(1, RTT_SPREAD)) + delay
        return Sample(source, target, rate, segments=SEGMENTS, retransmits=sent_again, rtt_ms=rtt, rtt_p99_ms=3 * rtt)

    def survey(self) -> Survey:
        """The whole measurement."""
        return survey(self.ends(), self.measure, seed=self.seed)


@dataclass(frozen=True)
class Case:
    """A defect and what the verdicts must say of it, as (kind, hosts, way)."""

    name: str
    least_hosts: int = 2
    most_hosts: int = 10_000


CASES = (
    Case("none"),
    Case("host sends 40 % slower", 3),
    Case("host sends 20 % slower", 3),
    Case("host slow both ways, 40 %", 3),
    Case("one link, 50 % slower", 3, 16),
    Case("one direction, 50 % slower", 2, 16),
    Case("host loses 1 %", 3),
    Case("host delays 2 ms", 3),
    Case("two hosts at once: sends 40 % slower, loses 1 %", 8),
    Case("one path dead", 3, 16),
    Case("majority 40 % slower, link speed unknown", 8),
    Case("majority 40 % slower, link speed known", 8),
    Case("all 40 % slower, link speed unknown", 2),
    Case("all 40 % slower, link speed known", 2),
    Case("fabric carries half", 8),
)


Right = set[tuple[str, tuple[str, ...]]]


def build(case: Case, num: int, seed: int) -> tuple[Fleet, Right]:
    """A fleet with the defect, and the verdicts that are right: (kind, hosts)."""
    fleet = Fleet(num, seed)
    one, other = fleet.pick(2)
    name = case.name
    host: Right = {("host", (one,))}
    if name == "none":
        return fleet, set()
    if name.startswith("host sends"):
        fleet.sends[one] = 0.6 if "40" in name else 0.8
        return fleet, host
    if name.startswith("host slow"):
        fleet.sends[one] = fleet.receives[one] = 0.6
        return fleet, host
    return _build_more(name, fleet, (one, other))


def _build_more(name: str, fleet: Fleet, pair: tuple[str, str]) -> tuple[Fleet, Right]:
    one, other = pair
    both = (min(pair), max(pair))
    if name.startswith("one direction"):
        fleet.paths[pair] = 0.5
        return fleet, {("direction" if fleet.num > 2 else "cannot tell", pair)}
    if name.startswith("one link"):
        fleet.paths[pair] = fleet.paths[(other, one)] = 0.5
        return fleet, {("link", both)}
    if name == "one path dead":
        fleet.dead_paths.add(both)
        return fleet, {("link", both)}
    if "loses" in name:
        fleet.lossy[other] = 0.01
        if "two" in name:
            fleet.sends[one] = 0.6
        return fleet, {("host", (other,))} | ({("host", (one,))} if "two" in name else set())
    if "delays" in name:
        fleet.delays_ms[one] = 2.0
        return fleet, {("host", (one,))}
    return _build_fleetwide(name, fleet)


def _build_fleetwide(name: str, fleet: Fleet) -> tuple[Fleet, Right]:
    if name.startswith("fabric"):
        fleet.shared_mbps = FULL_MBPS * (fleet.num // 2) / 2
        return fleet, {("infrastructure", ())}
    bad = fleet.hosts if name.startswith("all") else fleet.pick(fleet.num * 5 // 8)
    for host in bad:
        fleet.sends[host] = fleet.receives[host] = 0.6
    if name.endswith("known") and not name.endswith("unknown"):
        fleet.link_mbps = 10_000.0
        return fleet, {("infrastructure" if fleet.num > 2 else "cannot tell", ())}
    return fleet, {("cannot tell", ())} if name.startswith("majority") else set()


@dataclass
class Rates:
    """Number of fleets, of those whose defect was found (of clean ones: nothing), of those with a wrong blame."""

    num: int = 0
    found: int = 0
    blamed_wrongly: int = 0
    num_rounds: int = 0


def rates(case: Case, num: int, seeds: Sequence[int]) -> Rates:
    """Simulate the case once for every seed."""
    found = Rates()
    for seed in seeds:
        fleet, right = build(case, num, seed)
        done = fleet.survey()
        said = {(str(row.kind), row.hosts if named(row) else ()) for row in done.verdicts}
        found.num += 1
        found.found += right <= said if right else not said
        found.blamed_wrongly += any(row.blames and (str(row.kind), row.hosts) not in right for row in done.verdicts)
        found.num_rounds = max(found.num_rounds, done.num_rounds)
    return found


def named(verdict: Verdict) -> bool:
    """Do the hosts of this verdict count? Of an unclear one about two hosts they are a direction."""
    return verdict.blames or (verdict.kind is Kind.UNCLEAR and bool(verdict.way))


def applies(case: Case, num: int) -> bool:
    """Can this defect be told in a fleet of this size?"""
    return case.least_hosts <= num <= case.most_hosts
