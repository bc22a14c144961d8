"""Checks of NICs and routes of each host. Pure."""

from __future__ import annotations

import ipaddress
from collections import Counter
from typing import TYPE_CHECKING

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import (
    CheckedHost,
    Compared,
    Fleet,
    counted,
    each,
    names,
    ok,
    same_everywhere,
)
from ddp_play.planning.fabric import LOCAL_ONLY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ddp_play.planning.host_facts import Interface

WARN, FAIL = Status.WARN, Status.FAIL


def nics(fleet: Fleet) -> Iterator[Finding]:
    """NICs of the network between the hosts, and how many others there are."""
    used = dict(fleet.network.interfaces)
    if len(fleet.reached) > 1:
        yield _common(fleet)
    if used:
        yield from same_everywhere(fleet, MTU, lambda host: _mtu(host, used))
        yield from same_everywhere(fleet, SPEED, lambda host: _speed(host, used))
        yield from each(fleet, "duplex", lambda host: _duplex(host, used))
    yield from same_everywhere(fleet, LINKS, _links)
    yield from each(fleet, "default route", _default_route)
    yield from same_everywhere(fleet, ROUTES, lambda host: len(host.read("default_routes")))
    yield from each(fleet, "routes to peers", lambda host: _routes(host, fleet))
    if any(host.rdma for host in fleet.facts):
        yield from same_everywhere(fleet, RDMA, _rdma)


MTU = Compared(
    "mtu", "large packets of the others do not arrive, or are split", FAIL, "ip link show",
    "ip link set dev NIC mtu VALUE, and in the network configuration",
)  # fmt: skip
SPEED = Compared(
    "nic speed", "the slowest NIC decides the speed of all", FAIL, "ethtool NIC", "look at cable, port and transceiver",
    shown=lambda value: f"{value} Mb/s", is_harmless=lambda value, usual: value > usual,
)  # fmt: skip
LINKS = Compared(
    "nics", "ranks use the NICs that all hosts have", FAIL, "ip -br link; ip -br address",
    "ip link set dev NIC up; look at its cable and at its network configuration",
    is_harmless=lambda value, usual: int(value.split()[0]) > int(usual.split()[0]),
)  # fmt: skip
ROUTES = Compared(
    "default routes", "connections of this host may leave by another way", WARN, "ip route show default",
    "remove the route that does not belong there, and in the network configuration",
    shown=lambda value: f"{value} default routes",
)  # fmt: skip
RDMA = Compared(
    "rdma ports", "NCCL pairs the adapters of the hosts", FAIL, "ibstat; rdma link",
    "look at cable, port and the subnet manager, or leave the host out",
)  # fmt: skip


def _common(fleet: Fleet) -> Finding:
    hosts = tuple(host.name for host in fleet.reached)
    if fleet.network.problem:
        why = "ranks connect over it"
        return Finding(
            "common network", FAIL, fleet.network.problem, why, fleet.network.hint, hosts, look="ip -br address"
        )
    return Finding("common network", Status.OK, fleet.network.network, where=hosts)


def _link(host: CheckedHost, used: Mapping[str, str]) -> Interface | None:
    return host.known.interface_named(used.get(host.name, ""))


def _mtu(host: CheckedHost, used: Mapping[str, str]) -> int | None:
    link = _link(host, used)
    return link.mtu if link else None


def _speed(host: CheckedHost, used: Mapping[str, str]) -> int | None:
    link = _link(host, used)
    return link.speed_mbps if link else None


def _duplex(host: CheckedHost, used: Mapping[str, str]) -> Finding | None:
    row = host.read("nics").get(used.get(host.name, ""))
    if not row or row["duplex"] in ("", "unknown"):
        return None
    if row["duplex"] == "full":
        return ok("full")
    return Finding(
        "", FAIL, f"{used[host.name]} is at {row['duplex']} duplex", "sending and receiving take turns",
        "look at cable, port and the setting of the switch", limit="full", source="any NIC of the last 20 years",
        look=f"ethtool {used[host.name]}",
    )  # fmt: skip


def _links(host: CheckedHost) -> str:
    """NICs that carry something, without those of containers and of virtual machines."""
    rows = [link for link in host.known.interfaces if link.link in ("ethernet", "infiniband")]
    usable = [link for link in rows if link.up and link.addresses and not link.name.startswith(LOCAL_ONLY)]
    return f"{len(usable)} with an address"


def _default_route(host: CheckedHost) -> Finding:
    rows = host.read("default_routes")
    metrics = Counter(row["metric"] for row in rows)
    best = min(metrics, default=0)
    if metrics[best] < 2:
        return ok("one" if rows else "none")
    text = ", ".join(f"{row['gateway']} by {row['interface']}" for row in rows if row["metric"] == best)
    return Finding(
        "", WARN, f"{metrics[best]} of the same metric: {text}", "connections leave by either of them",
        "give one of them a higher metric, or remove it", limit="one of the lowest metric", source="ddp-play",
        look="ip route show default",
    )  # fmt: skip


def _routes(host: CheckedHost, fleet: Fleet) -> Finding | None:
    addresses = dict(fleet.network.addresses)
    if host.name not in addresses or len(addresses) < 2:
        return None
    wrong = misrouted(host, fleet)
    if not wrong:
        return ok("by the common network")
    peer, source = next(iter(wrong.items()))
    link = next((link.name for link in host.known.interfaces if source in dict(map(reversed, link.networks()))), "")  # type: ignore[arg-type]
    return Finding(
        "", FAIL, f"to {names(wrong)} by {link or 'no interface'} ({source})",
        "peers expect packets from the common network",
        "remove the route, or the network of containers that overlaps (docker network ls)",
        limit=fleet.network.network, source="the network that all hosts have", look=f"ip route get {addresses[peer]}",
    )  # fmt: skip


def misrouted(host: CheckedHost, fleet: Fleet) -> dict[str, str]:
    """Peers to which packets of this host do not leave by the common network, and the address that they get."""
    by_address = {address: name for name, address in fleet.network.addresses}
    found = {by_address[to]: source for to, source in host.saw("routes").items() if to in by_address}
    return {peer: source for peer, source in found.items() if not _is_inside(source, fleet.network.network)}


def _is_inside(address: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network)
    except ValueError:
        return False


def _rdma(host: CheckedHost) -> str:
    return (
        counted(f"{port.link_layer} {port.rate_gbps:g} Gb/s" for port in host.known.rdma if port.active)
        or "none active"
    )
