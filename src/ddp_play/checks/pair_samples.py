"""Measurements between two hosts, one per direction, and the ends that they were made at. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

Pair = tuple[str, str]
# Beyond this part of the time an end counts as the limit. Where the network is, it is under 0.1, on busy hosts too.
CPU_LIMIT = 0.3


@dataclass(frozen=True, slots=True)
class PairEnd:
    """Where a host is measured: the address and interface that a job's plan uses."""

    host: str
    address: str = ""
    interface: str = ""
    link_mbps: float | None = None  # of a hardware interface, from its driver; None where nobody knows it
    mtu: int = 0
    carrier_changes: int = 0  # during the whole measurement


@dataclass(frozen=True, slots=True)
class Sample:
    """One direction of one measurement. Without `mbps` it has a `problem`."""

    source: str
    target: str
    mbps: float | None = None  # that arrived
    busy: float = 0.0  # part of the time in which an end was the limit: it copied, had nothing to send, took nothing
    idle: float = 0.0  # part of the time in which an end had nothing on its way, or the other took nothing
    segments: int = 0
    retransmits: int = 0
    checksum_errors: int = 0
    out_of_order: int = 0  # segments that arrived after a later one
    rtt_ms: float | None = None  # median of small echoes; the same in both directions
    rtt_p99_ms: float | None = None
    problem: str = ""
    unmet: bool = False  # the problem lies between the hosts; else the test itself did not run

    @property
    def pair(self) -> Pair:
        """Both hosts in order of their names, whatever the direction."""
        return (min(self.source, self.target), max(self.source, self.target))

    @property
    def cpu_limited(self) -> bool:
        """Was a CPU the limit, not the network? Then the network carries at least this rate."""
        return self.busy > CPU_LIMIT

    @property
    def carried_mbps(self) -> float | None:
        """Rate while data was on its way: on a busy host the sender sometimes has no CPU to offer any."""
        return self.mbps / (1 - min(self.idle, CPU_LIMIT)) if self.mbps is not None else None

    @property
    def loss(self) -> float | None:
        """Part of the segments that was lost and sent again; None if too few were sent to tell."""
        return self.retransmits / self.segments if self.segments >= 500 else None

    @property
    def disorder(self) -> float | None:
        """Part of the segments that arrived out of order; None if too few were sent to tell."""
        return min(1.0, self.out_of_order / self.segments) if self.segments >= 500 else None

    def to_json(self) -> dict[str, Any]:
        """Row of a document."""
        return asdict(self)


def not_run(source: str, target: str, problem: str, *, unmet: bool = False) -> tuple[Sample, Sample]:
    """Both directions of a pair that was not measured."""
    return (
        Sample(source, target, problem=problem, unmet=unmet),
        Sample(target, source, problem=problem, unmet=unmet),
    )


def ordered(one: str, other: str) -> Pair:
    """A pair as `Sample.pair` spells it."""
    return (min(one, other), max(one, other))
