"""Rule of the cluster's firewall, and the step of a firewall's own program that adds or removes rules on a host."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Dict, List, Mapping, Sequence

# In the name or the comment of what is added to a firewall of the site.
OWN_NAME = "ddp-play"
ROCE = ("udp", "4791")
Steps = List[Dict[str, Any]]


def ports_of(text: str) -> "tuple[int, int]":
    """First and last port of `2049`, `29400-29999` or `29400:29999`. ValueError for anything else."""
    first, _, last = text.replace(":", "-").partition("-")
    found = int(first), int(last or first)
    if not 0 < found[0] <= found[1] < 65536:
        raise ValueError(f"{text!r} is no port and no range of ports")
    return found


@dataclass(frozen=True)
class Rule:
    """Traffic that is accepted: from a network in the form of `ipaddress`, to the ports `first` to `last`."""

    protocol: str
    first: int
    last: int
    source: str

    @property
    def ports(self) -> str:
        """As firewalld writes them: `2049` or `29400-29999`."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @property
    def text(self) -> str:
        """For messages and listings."""
        return f"{self.protocol} {self.ports} from {self.source}"

    @property
    def is_ipv6(self) -> bool:
        """Whether the source is a network of IPv6."""
        return ":" in self.source


def rule(protocol: str, ports: str, source: str) -> Rule:
    """The rule of these texts. ValueError for a port or a network that is none."""
    return Rule(protocol, *ports_of(str(ports)), str(ip_network(str(source), strict=False)))


def wanted_rules(subnets: Sequence[str], ranges: Sequence[str], extra: Sequence[Mapping[str, Any]]) -> List[Rule]:
    """Rules of the cluster without repetition: `ranges` and RoCE from the subnets, then `base_os_firewall_extra`."""
    rows = [rule("tcp", ports, subnet) for subnet in subnets for ports in ranges]
    rows += [rule(*ROCE, subnet) for subnet in subnets]
    for more in extra:
        sources = more.get("subnets", subnets)
        rows += [rule(str(more.get("protocol", "tcp")), str(more["port"]), source) for source in sources]
    return list(dict.fromkeys(rows))


def covers(network: str, source: str) -> bool:
    """Whether all addresses of `source` are in `network`; text that is no network covers nothing."""
    try:
        outer, inner = ip_network(network, strict=False), ip_network(source)
    except ValueError:
        return False
    same = outer.version == inner.version
    return same and int(outer[0]) <= int(inner[0]) and int(inner[-1]) <= int(outer[-1])


def step(kind: str, argv: Sequence[str], what: Sequence[Rule], front_end: str) -> Dict[str, Any]:
    """An item of option `steps` of ddp.play.firewall_rules."""
    return {"kind": kind, "argv": list(argv), "what": [f"{row.text} ({front_end})" for row in what]}
