"""Network matrix over open channels: one order per host and round, to all hosts at once, and the survey of the answers.

A host that dies or hangs ends its own pairs, which are "not run" with the reason; the others go on.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ddp_play.checks.host_orders import lose_for_answer
from ddp_play.checks.pair_outcome import Verdict, merged
from ddp_play.checks.pair_samples import PairEnd, Sample, not_run
from ddp_play.checks.pair_survey import Survey, survey
from ddp_play.checks.pair_verdict import judge_ends
from ddp_play.checks.time_budget import NO_LIMIT, TimeBudget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.checks.host_orders import HostOrders
    from ddp_play.checks.pair_rounds import Round
    from ddp_play.checks.pair_samples import Pair

LISTEN_S, END_S = 20.0, 10.0
# Of a host's program for one measurement besides sending and receiving: connections, an answer of the peer, no data.
WAITING_S = 20.0
SPARE_S = 0.3  # more than the longest round so far, for the next one
NOT_OURS = "its answer is not what ddp-play's program sends"


@dataclass(frozen=True, slots=True)
class MatrixSettings:
    """How much is measured: seconds in each direction, TCP streams. `records`: Mb/s by direction of an earlier time."""

    seconds: float = 1.0
    streams: int = 2
    seed: int = 0
    records: Mapping[Pair, float] = field(default_factory=dict)
    budget: TimeBudget = NO_LIMIT


@dataclass(frozen=True, slots=True)
class Matrix:
    """The result: ends, samples, verdicts, and hosts that could not take part, with the reason."""

    ends: Mapping[str, PairEnd]
    survey: Survey
    verdicts: tuple[Verdict, ...]
    lost: Mapping[str, str]
    num_late: int = 0  # rounds for which there was no time

    @property
    def num_not_run(self) -> int:
        """Pairs without a measurement, for another reason than the network."""
        return len({row.pair for row in self.survey.samples if row.mbps is None and not row.unmet})

    @property
    def num_cpu_limited(self) -> int:
        """Directions in which a CPU was the limit: the network carries at least that."""
        return sum(row.cpu_limited for row in self.survey.samples)

    def record(self) -> dict[Pair, float]:
        """Mb/s by direction, to compare later measurements of the same hosts with; not where an end was the limit."""
        return {(row.source, row.target): row.mbps for row in self.survey.samples if row.mbps and not row.cpu_limited}

    def to_json(self) -> dict[str, Any]:
        """The document for `--json`."""
        return {
            "hosts": {host: asdict(end) for host, end in self.ends.items()},
            "rounds": self.survey.num_rounds - self.num_late,
            "rounds_late": self.num_late,
            "not_run": self.num_not_run,
            "cpu_limited": self.num_cpu_limited,
            "directions": [row.to_json() for row in self.survey.samples],
            "repeated": [row.to_json() for row in self.survey.repeats],
            "verdicts": [row.to_json() for row in self.verdicts],
            "not_repeated": [row.to_json() for row in self.survey.not_repeated],
            "lost": dict(self.lost),
        }


def measure_matrix(asks: HostOrders, ends: Mapping[str, PairEnd], settings: MatrixSettings | None = None) -> Matrix:
    """Measure the network between these hosts, at the addresses and interfaces that `ends` has."""
    rounds = _Rounds(asks, settings or MatrixSettings())
    before = rounds.listen(ends)
    try:
        found = survey(before, rounds.measure, records=rounds.settings.records, seed=rounds.settings.seed)
    finally:
        after = rounds.end(before)
    verdicts = merged([*judge_ends(after), *found.verdicts])
    lost = {host: why for host, why in asks.lost.items() if host in ends}
    return Matrix(after, found, verdicts, lost, rounds.num_late)


@dataclass
class _Rounds:
    asks: HostOrders
    settings: MatrixSettings
    ports: dict[str, int] = field(default_factory=dict)
    ends: dict[str, PairEnd] = field(default_factory=dict)
    number: int = 0
    num_late: int = 0
    longest_s: float = 0.0  # of the rounds so far

    def listen(self, ends: Mapping[str, PairEnd]) -> dict[str, PairEnd]:
        """Have all hosts listen; those that do, with what they say of their interface."""
        token = secrets.token_hex(16)
        orders = {
            host: {"address": end.address, "interface": end.interface, "token": token} for host, end in ends.items()
        }
        for host, row in self.asks.documents("pair_listen", orders, limit_s=LISTEN_S).items():
            if isinstance(row.get("port"), int):
                self.ports[host] = row["port"]
                link, mtu, changes = (_number(row.get(name)) for name in ("link_mbps", "mtu", "carrier_changes"))
                self.ends[host] = replace(
                    ends[host], link_mbps=link or ends[host].link_mbps, mtu=int(mtu or 0),
                    carrier_changes=int(changes or 0),
                )  # fmt: skip
            else:
                lose_for_answer(self.asks, host, "pair_listen")
        return {host: replace(end, carrier_changes=0) for host, end in self.ends.items()}

    def end(self, before: Mapping[str, PairEnd]) -> dict[str, PairEnd]:
        """Have all hosts stop listening; the ends with the carrier changes since `listen`."""
        found = dict(before)
        for host, row in self.asks.documents("pair_end", {host: {} for host in before}, limit_s=END_S).items():
            changes = int(_number(row.get("carrier_changes")) or 0)
            found[host] = replace(found[host], carrier_changes=max(0, changes - self.ends[host].carrier_changes))
        return found

    def measure(self, pairs: Round) -> list[Sample]:
        """One round: every host has its order, those that rest too, so that their channels stay open."""
        if self.settings.budget.left_s() < self._round_s():
            self.num_late += 1
            return [sample for pair in pairs for sample in not_run(*pair, self.settings.budget.reason)]
        self.number += 1
        began = time.monotonic()
        orders: dict[str, dict[str, Any]] = {host: {} for host in self.ends}
        for at, (one, other) in enumerate(pairs):
            if not {one, other} & self.asks.lost.keys():
                orders[one], orders[other] = self._orders(f"{self.number}.{at}", other)
        limit_s = 2 * self.settings.seconds + WAITING_S
        answers = self.asks.documents("pair_test", orders, limit_s=limit_s)
        self.longest_s = max(self.longest_s, time.monotonic() - began)
        return [sample for pair in pairs for sample in self._samples(pair, answers)]

    def _round_s(self) -> float:
        """Seconds for both directions, connections and echoes; as of the longest round so far, if there is one."""
        return self.longest_s + SPARE_S if self.longest_s else 2 * self.settings.seconds + 1.0

    def _orders(self, name: str, second: str) -> tuple[dict[str, Any], dict[str, Any]]:
        common = {"pair": name, "streams": self.settings.streams, "seconds": self.settings.seconds}
        there = {"address": self.ends[second].address, "port": self.ports[second]}
        return {**common, **there, "first": True}, {**common, "first": False}

    def _samples(self, pair: Pair, answers: Mapping[str, Any]) -> tuple[Sample, Sample]:
        one, other = pair
        for host in pair:
            if host not in answers:
                return not_run(one, other, f"{host}: {self.asks.lost.get(host, 'no answer')}")
        problems = [(row.get("problem"), row.get("unmet")) for row in (answers[one], answers[other])]
        if any(why for why, _ in problems):
            why, unmet = next((row for row in problems if row[0]), ("", False))
            return not_run(one, other, str(why)[:400], unmet=bool(unmet))
        try:
            trips = [float(value) for value in answers[one]["rtt_ms"]]
            return (
                _sample((one, other), answers[one]["sent"], answers[other]["received"], trips),
                _sample((other, one), answers[other]["sent"], answers[one]["received"], trips),
            )
        except (LookupError, TypeError, ValueError):
            return not_run(one, other, NOT_OURS)


def _sample(cell: Pair, sent: Mapping[str, Any], received: Mapping[str, Any], trips: list[float]) -> Sample:
    mbps = float(received["mbps"])
    if not 0 < mbps < 1e8:
        raise ValueError(mbps)
    return Sample(
        *cell, mbps, busy=_share(sent["cpu"], sent["not_offered"], sent["not_taken"], received["cpu"]),
        idle=_share(sent["not_offered"], sent["not_taken"]),
        segments=int(sent["segments"]), retransmits=int(sent["retransmits"]),
        checksum_errors=int(received["checksum_errors"]), out_of_order=int(received["out_of_order"]),
        rtt_ms=trips[1], rtt_p99_ms=trips[2],
    )  # fmt: skip


def _share(*values: Any) -> float:
    """The largest of these parts of the time."""
    return round(min(1.0, max(0.0, *map(float, values))), 3)


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
