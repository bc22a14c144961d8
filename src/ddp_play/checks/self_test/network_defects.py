"""Defects of the network between four hosts that the full level must find, on a link of 200 Mb/s each.

htb, tbf and u32 are in more kernels than netem: packets are lost by iptables at the receivers, and held or changed by
a program in the way of the sender (`packet_queue`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.checks.fleet import FULL
from ddp_play.checks.self_test.defect import HOSTS, Defect, Wanted, Ways, every, inside, program_of

if TYPE_CHECKING:
    from collections.abc import Iterable

FULL_RATE, SLOW_RATE = "200mbit", "120mbit"
LINK = (
    "tc qdisc replace dev eth0 root handle 1: htb default 1 && "
    f"tc class replace dev eth0 parent 1: classid 1:1 htb rate {FULL_RATE} burst 64kb quantum 60000 && "
    f"tc class replace dev eth0 parent 1: classid 1:2 htb rate {SLOW_RATE} burst 64kb quantum 60000"
)
HEAL = "tc qdisc del dev eth0 root 2>/dev/null; iptables -F; ip link set eth0 mtu 1500 gso_max_segs 65535"
SENDS_SLOWLY = f"tc class change dev eth0 parent 1: classid 1:1 htb rate {SLOW_RATE} burst 64kb quantum 60000"
# a lab's network passes packets of up to 64 KiB, of which few are enough for a second
SMALL_PACKETS = "ip link set eth0 gso_max_segs 1"
CHECK = "network"
LARGE = "-p tcp -m length --length 1000:65535 -m statistic --mode random --probability"


def to(target: str) -> str:
    """Packets to this address go through the slow class."""
    return f"tc filter add dev eth0 parent 1: protocol ip u32 match ip dst {target} flowid 1:2"


def drop_from(source: str, percent: float) -> str:
    """So many of its packets are lost."""
    return f"iptables -A INPUT -s {source} -p tcp -m statistic --mode random --probability {percent / 100} -j DROP"


def queued(peers: Iterable[str], match: str = "") -> str:
    """What is sent to the peers goes through the program first; where it does not run, nothing changes."""
    rows = (f"iptables -A OUTPUT -d {peer} {match} -j NFQUEUE --queue-num 5 --queue-bypass" for peer in peers)
    return " && ".join(rows)


def defect(
    number: int,
    name: str,
    seeds: Iterable[tuple[str, str]],
    *wanted: Wanted,
    around: tuple[str, str] = ("true", "true"),
) -> Defect:
    """A defect on shaped links. `around`: commands that start and end what it needs besides."""
    links = every(tuple((host, f"{HEAL}; {LINK}") for host in HOSTS))
    heal = "; ".join(inside(host, f"{HEAL}; true") for host in HOSTS)
    seed = " && ".join([links, around[0], *(inside(host, command) for host, command in seeds)])
    first, more = (wanted[0], wanted[1:]) if wanted else (Wanted("", ()), ())
    return Defect(
        number, name, seed, f"{around[1]}; {heal}", first.check, first.where, first.result, first.says, first.ways,
        FULL, more,
    )  # fmt: skip


def at_fault(*hosts: str, says: str, ways: Ways = ()) -> Wanted:
    """The network's finding about a host, or a pair with its directions."""
    return Wanted(CHECK, hosts, says=says, ways=ways)


def from_all(host: str) -> tuple[tuple[str, str], ...]:
    """What the others send to this host is slow."""
    return tuple((other, to(f"{{a{host[1]}}}")) for other in HOSTS if other != host)


RATES = (
    defect(1, "host slow both ways", (("h3", SENDS_SLOWLY), *from_all("h3")), at_fault("h3", says="(both ways)")),
    defect(2, "host sends slowly", (("h2", SENDS_SLOWLY),), at_fault("h2", says="(sends)")),
    defect(2, "host receives slowly", from_all("h3"), at_fault("h3", says="(receives)")),
    defect(3, "one slow link", (("h1", to("{a4}")), ("h4", to("{a1}"))),
           at_fault("h1", "h4", says="rate", ways=(("h1", "h4"), ("h4", "h1")))),
    defect(3, "one slow direction", (("h4", to("{a2}")),), at_fault("h4", "h2", says="rate", ways=(("h4", "h2"),))),
)  # fmt: skip
PACKETS = (
    defect(4, "loss of 1 %", (("h1", SMALL_PACKETS), *((host, drop_from("{a1}", 1)) for host in HOSTS[1:])),
           at_fault("h1", says="retransmits")),
    defect(5, "changed packets", (("h2", SMALL_PACKETS), ("h2", queued(
           ("{a1}", "{a3}", "{a4}"), f"{LARGE} 0.002"))),
           at_fault("h2", says="checksum errors"), around=program_of("h2", "packet_queue.py", "corrupt")),
    defect(6, "delay of 20 ms", (("h4", queued(("{a1}", "{a2}", "{a3}"))),), at_fault("h4", says="latency"),
           around=program_of("h4", "packet_queue.py", "delay 20")),
    defect(7, "packets out of order", (("h3", SMALL_PACKETS), ("h3", queued(
           ("{a1}", "{a2}", "{a4}"), f"{LARGE} 0.05"))),
           at_fault("h3", says="out of order"), around=program_of("h3", "packet_queue.py", "reorder 5")),
)  # fmt: skip
BLOCKED = (
    defect(10, "one path blocked", (("h2", "iptables -A INPUT -s {a3} -p tcp -j DROP"),),
           at_fault("h2", "h3", says="reach", ways=(("h2", "h3"), ("h3", "h2"))),
           Wanted("ports", ("h2", "h3"), ways=(("h2", "h3"), ("h3", "h2")))),
    defect(12, "host blocked", tuple(
           ("h1", f"iptables -A {chain} -p tcp -{way} {{a{peer}}} -j REJECT")
           for peer in (2, 3, 4) for chain, way in (("INPUT", "s"), ("OUTPUT", "d"))),
           at_fault("h1", says="reach"), Wanted("ports", ("h1",), ways=tuple(
           (f"h{peer}", "h1") for peer in (2, 3, 4))), Wanted("ports", ("h1",), ways=tuple(
           ("h1", f"h{peer}") for peer in (2, 3, 4)))),
)  # fmt: skip
OTHERS = (
    defect(43, "two at once: h2 sends slowly, what h4 sends is lost",
           (("h2", SENDS_SLOWLY), ("h4", SMALL_PACKETS), *((host, drop_from("{a4}", 2)) for host in HOSTS[:3])),
           at_fault("h2", says="rate"), at_fault("h4", says="retransmits")),
    defect(43, "all hosts are slow", ((host, SENDS_SLOWLY) for host in HOSTS)),
    defect(44, "link goes down and up", (), at_fault("h3", says="carrier changes"),
           around=program_of("h3", "flapping_link.py", "{net}.1")),
)  # fmt: skip
DEFECTS = (*RATES, *PACKETS, *BLOCKED, *OTHERS)
