"""Verdict on a pair matrix as a type: what is at fault, with the evidence; and how verdicts on one thing join. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ddp_play.checks.pair_attribution import RECEIVES, SENDS
from ddp_play.checks.pair_samples import ordered

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddp_play.checks.pair_samples import Sample

BOTH = "both ways"
PRIVATE = ("beyond", "is_known")
# By metric: the command to look with on the host, and what helps.
LOOK = {
    "rate": "ethtool INTERFACE; tc -s qdisc show dev INTERFACE",
    "retransmits": "ethtool -S INTERFACE; nstat -az TcpRetransSegs",
    "out of order": "nstat -az TcpExtTCPOFOQueue; ip link show type bond; ethtool -x INTERFACE",
    "checksum errors": "nstat -az TcpInCsumErrors; ethtool -S INTERFACE",
    "latency": "tc -s qdisc show dev INTERFACE; ethtool -c INTERFACE",
    "reach": "ip route get ADDRESS; iptables-save",
    "mtu": "ip link show INTERFACE",
    "carrier changes": "journalctl -k -g INTERFACE",
}
REMEDY = {
    "rate": "compare speed, shapers and TCP buffers with a host that is well; then cable, optics, switch port",
    "retransmits": "replace cable or optics; look for drops at the switch port",
    "out of order": "let one path carry a connection: bonding mode (not balance-rr), and how switches spread packets",
    "checksum errors": "replace cable, optics or NIC: data arrives changed",
    "latency": "look for shapers, a detour on the way (traceroute), power saving of CPUs and NIC",
    "reach": "open the port range of jobs between these hosts, in both directions",
    "mtu": "set the same MTU on all hosts and switch ports",
    "carrier changes": "replace the cable or its optics, and look at the switch port",
}


class Kind(StrEnum):
    """What a verdict blames."""

    HOST = "host"
    LINK = "link"
    DIRECTION = "direction"
    INFRASTRUCTURE = "infrastructure"
    UNCLEAR = "cannot tell"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One value that led to a verdict. `beyond`: its limit as the yardstick counts, for the repetition."""

    metric: str
    value: str
    limit: str
    num: int  # measurements behind the value
    source: str  # where the limit comes from
    others: str  # what they have; empty where there are none
    beyond: float = 0.0
    is_known: bool = False  # a limit that was known before, not one from the comparison


@dataclass(frozen=True, slots=True)
class Verdict:
    """One defect. `hosts` of a direction: sender, receiver. `way` of a host: sends, receives, both ways."""

    kind: Kind
    hosts: tuple[str, ...]
    evidence: tuple[Evidence, ...]
    way: str = ""

    @property
    def blames(self) -> bool:
        """Is a host, link or direction at fault? Else nobody is to be kept out because of it."""
        return self.kind in (Kind.HOST, Kind.LINK, Kind.DIRECTION)

    @property
    def look(self) -> str:
        """Command that shows more on a host; INTERFACE and ADDRESS stand for those of the pair."""
        return LOOK[self.evidence[0].metric]

    @property
    def remedy(self) -> str:
        """What helps."""
        return REMEDY[self.evidence[0].metric]

    def is_about(self, sample: Sample) -> bool:
        """Is this direction one of what it blames?"""
        if self.kind is Kind.HOST:
            ends = {SENDS: (sample.source,), RECEIVES: (sample.target,)}.get(self.way, sample.pair)
            return self.hosts[0] in ends
        if self.kind is Kind.LINK:
            return sample.pair == ordered(*self.hosts)
        return (sample.source, sample.target) == self.hosts

    def text(self) -> str:
        """One line: what is at fault, and the first value with its limit."""
        where = {
            Kind.HOST: f"host {', '.join(self.hosts)}" + (f" ({self.way})" if self.way else ""),
            Kind.LINK: f"link {' - '.join(self.hosts)}",
            Kind.DIRECTION: f"direction {' -> '.join(self.hosts)}",
            Kind.INFRASTRUCTURE: "the test or the network, no single host",
            Kind.UNCLEAR: f"cannot tell which of {', '.join(self.hosts)}",
        }[self.kind]
        rows = [f"{row.metric} {row.value}, limit {row.limit} ({row.source}; n={row.num})"
                + (f"; others: {row.others}" if row.others else "") for row in self.evidence]  # fmt: skip
        return f"{where}: " + "; ".join(rows)

    def to_json(self) -> dict[str, Any]:
        """Row of a document."""
        rows = [{name: value for name, value in asdict(row).items() if name not in PRIVATE} for row in self.evidence]
        document = {"kind": str(self.kind), "hosts": list(self.hosts), "way": self.way, "evidence": rows}
        return {**document, "blames": self.blames, "text": self.text(), "look": self.look, "remedy": self.remedy}


def merged(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """One verdict for each thing at fault. A pair's is left out where one of its hosts explains it."""
    found: dict[tuple[bool, tuple[str, ...]], Verdict] = {}
    for verdict in verdicts:
        key = (verdict.kind is Kind.HOST, tuple(sorted(verdict.hosts)))
        known = found.get(key)
        found[key] = verdict if known is None else _joined(known, verdict)
    reasons = {row.hosts[0]: {item.metric for item in row.evidence} for row in found.values() if row.kind is Kind.HOST}
    return tuple(
        row for row in found.values()
        if row.kind not in (Kind.LINK, Kind.DIRECTION)
        or not any(reasons.get(host, set()) - {item.metric for item in row.evidence} for host in row.hosts)
    )  # fmt: skip


def _joined(one: Verdict, other: Verdict) -> Verdict:
    way = one.way if one.way == other.way or {one.way, other.way} - {SENDS, RECEIVES, BOTH} else BOTH
    kind = one.kind
    if {one.kind, other.kind} == {Kind.LINK, Kind.DIRECTION} or (kind is Kind.DIRECTION and one.hosts != other.hosts):
        kind = Kind.LINK
    hosts = one.hosts if kind is not Kind.LINK else ordered(*one.hosts)
    return Verdict(kind, hosts, (*one.evidence, *other.evidence), way)
