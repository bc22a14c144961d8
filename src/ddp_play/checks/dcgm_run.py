"""NVIDIA's diagnostic on hosts that have DCGM: which of them, at what level, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ddp_play.checks.fleet import BURN_IN, FULL
from ddp_play.checks.host_orders import TimedOrders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ddp_play.planning.host_facts import HostFacts

READING = "dcgmi"  # path of the program on a host; empty without it
ORDER, ANSWER = "check_dcgm", "diagnostic"
STOP_S = 15.0  # for dcgmi to stop a diagnostic that is over its limit
ANSWER_S = 12.0  # for an answer to arrive after that


class Talks(TimedOrders, Protocol):
    """Orders of which some are left out for want of time."""

    def has_time(self, least_s: float) -> bool:
        """Is there time for what needs at least so many seconds?"""


@dataclass(frozen=True, slots=True)
class DiagnosticLevel:
    """A level of `dcgmi diag`. `share`: of what is left of the check's time, the part that it may take."""

    number: int
    least_s: float
    limit_s: float
    share: float


# The durations that docs.nvidia.com/datacenter/dcgm names: level 1 seconds, level 2 two minutes, level 3 fifteen.
# Rounds of a burn-in come after it.
LEVELS = {FULL: DiagnosticLevel(1, 15.0, 90.0, 1.0), BURN_IN: DiagnosticLevel(2, 120.0, 300.0, 0.5)}


def with_dcgm(facts: Mapping[str, HostFacts], readings: Mapping[str, Any]) -> tuple[str, ...]:
    """The hosts with GPUs of NVIDIA and dcgmi."""
    return tuple(name for name, host in facts.items() if host.gpus and _path(readings.get(name)))


def _path(found: object) -> str:
    row = found.get(READING) if isinstance(found, dict) else None
    return str(row.get("value") or "") if isinstance(row, dict) else ""


def diagnose(talk: Talks, facts: Mapping[str, HostFacts], hosts: Iterable[str], level: str) -> dict[str, Any]:
    """By host, what the diagnostic answered. It runs once on a machine that has several names."""
    first: dict[str, str] = {}
    for host in hosts:
        if host not in talk.lost:
            first.setdefault(facts[host].machine, host)
    asked = LEVELS[level]
    if not first or not talk.has_time((asked.least_s + STOP_S) / asked.share):
        return {}
    limit_s = asked.share * talk.cap_s((asked.limit_s + STOP_S) / asked.share) - STOP_S
    order = {"level": asked.number, "limit_s": limit_s, "stop_s": STOP_S}
    answers = talk.documents(ORDER, dict.fromkeys(first.values(), order), limit_s=limit_s + STOP_S + ANSWER_S)
    by_machine = {facts[host].machine: answer for host, answer in answers.items()}
    return {
        host: {**by_machine[facts[host].machine], "level": asked.number}
        for host in hosts
        if facts[host].machine in by_machine
    }
