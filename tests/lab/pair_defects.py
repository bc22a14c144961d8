"""Defects of the network between lab hosts, seeded with tc and iptables on a link of 200 Mb/s, and how they are healed.

htb, tbf and u32 are in more kernels than netem: packets are lost by iptables at the receivers.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .conftest import Lab

HOSTS = ("h1", "h2", "h3", "h4")
FULL, SLOW = "200mbit", "120mbit"
LINK = (
    "tc qdisc replace dev eth0 root handle 1: htb default 1 && "
    f"tc class replace dev eth0 parent 1: classid 1:1 htb rate {FULL} burst 64kb quantum 60000 && "
    f"tc class replace dev eth0 parent 1: classid 1:2 htb rate {SLOW} burst 64kb quantum 60000"
)
HEAL = "tc qdisc del dev eth0 root 2>/dev/null; iptables -F; ip link set eth0 mtu 1500 gso_max_segs 65535"


def to(target: str) -> str:
    """Packets to this address go through the slow class."""
    return f"tc filter add dev eth0 parent 1: protocol ip u32 match ip dst {target} flowid 1:2"


SENDS_SLOWLY = f"tc class change dev eth0 parent 1: classid 1:1 htb rate {SLOW} burst 64kb quantum 60000"


def drop_from(source: str, percent: float) -> str:
    """So many of its packets are lost."""
    return f"iptables -A INPUT -s {source} -p tcp -m statistic --mode random --probability {percent / 100} -j DROP"


# a lab's network passes packets of up to 64 KiB, of which few are enough for a second
SMALL_PACKETS = "ip link set eth0 gso_max_segs 1"


@dataclass(frozen=True)
class Defect:
    """Commands by host, with {h1} to {h4} for addresses; the verdicts that are right: (kind, hosts, metric, way)."""

    name: str
    seeds: tuple[tuple[str, str], ...]
    right: frozenset[tuple[str, tuple[str, ...], str, str]]


def expect(*rows: tuple[str, tuple[str, ...], str, str]) -> frozenset[tuple[str, tuple[str, ...], str, str]]:
    return frozenset(rows)


SENDS = Defect("host sends slowly", (("h2", SENDS_SLOWLY),), expect(("host", ("h2",), "rate", "sends")))
TWO = Defect(
    "two at once: h2 sends slowly, what h4 sends is lost",
    (("h2", SENDS_SLOWLY), ("h4", SMALL_PACKETS), *((host, drop_from("{h4}", 2)) for host in ("h1", "h2", "h3"))),
    expect(("host", ("h2",), "rate", "sends"), ("host", ("h4",), "retransmits", "")),
)
DEFECTS = (
    SENDS,
    Defect(
        "host receives slowly",
        tuple((host, to("{h3}")) for host in ("h1", "h2", "h4")),
        expect(("host", ("h3",), "rate", "receives")),
    ),
    Defect(
        "host slow both ways",
        (("h3", SENDS_SLOWLY), *((host, to("{h3}")) for host in ("h1", "h2", "h4"))),
        expect(("host", ("h3",), "rate", "both ways")),
    ),
    Defect("one bad link", (("h1", to("{h4}")), ("h4", to("{h1}"))), expect(("link", ("h1", "h4"), "rate", ""))),
    Defect("one bad direction", (("h4", to("{h2}")),), expect(("direction", ("h4", "h2"), "rate", ""))),
    Defect(
        "loss of 1 %",
        (("h1", SMALL_PACKETS), *((host, drop_from("{h1}", 1)) for host in ("h2", "h3", "h4"))),
        expect(("host", ("h1",), "retransmits", "")),
    ),
    Defect("MTU differs", (("h2", "ip link set eth0 mtu 1400"),), expect(("host", ("h2",), "mtu", "both ways"))),
    Defect(
        "one path blocked",
        (("h2", "iptables -A INPUT -s {h3} -p tcp -j DROP"),),
        expect(("link", ("h2", "h3"), "reach", "")),
    ),
    Defect(
        "host blocked",
        tuple(
            ("h1", f"iptables -A {chain} -p tcp -{way} {{{host}}} -j REJECT")
            for host in ("h2", "h3", "h4")
            for chain, way in (("INPUT", "s"), ("OUTPUT", "d"))
        ),
        expect(("host", ("h1",), "reach", "both ways")),
    ),
    TWO,
)


def as_root(lab: Lab, host: str, command: str) -> None:
    """Run a command on a host; it must succeed."""
    words = ["docker", "exec", f"ddp-play-{lab.name}-{host}", "sh", "-c", command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"{host}: {command}: {done.stderr}"


def seed(lab: Lab, addresses: Mapping[str, str], defect: Defect | None) -> None:
    """A link of 200 Mb/s on each host, and the defect."""
    for host in HOSTS:
        as_root(lab, host, f"{HEAL}; {LINK}")
    for host, command in defect.seeds if defect else ():
        as_root(lab, host, command.format(**addresses))


def heal(lab: Lab) -> None:
    """As the hosts were."""
    for host in HOSTS:
        as_root(lab, host, f"{HEAL}; true")
