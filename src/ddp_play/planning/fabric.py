"""Choice of the network of the ranks: a subnet common to all hosts, and the interface of each host on it."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady, UsageError
from ddp_play.planning.refused_hosts import Refused, refuse_all

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts, Interface

# Name prefixes of virtual interfaces (containers, virtual machines, tunnels), which do not reach other hosts.
LOCAL_ONLY = (
    "docker",
    "br-",
    "veth",
    "virbr",
    "cni",
    "flannel",
    "cali",
    "tun",
    "tap",
    "wg",
    "tailscale",
    "lxc",
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Interface and address at which a host is reachable for the ranks of other hosts."""

    interface: str
    address: str
    interfaces: tuple[str, ...] = ()  # all NICs, where ddp_interface names several


@dataclass(frozen=True, slots=True)
class FabricChoice:
    """The fabric, the reason for it, and the endpoint of each host."""

    fabric: str  # ib | ethernet | local
    reason: str
    network: str
    endpoints: dict[str, Endpoint]


def choose_fabric(hosts: tuple[HostFacts, ...], *, fabric: str = "auto", network: str = "") -> FabricChoice:
    """The best subnet common to all hosts: InfiniBand before ethernet, then the fastest.

    `fabric` is auto, ib or ethernet; `network` (CIDR) and the host variable ddp_interface override.
    """
    wanted = _requested_network(network)
    if len({host.machine for host in hosts}) == 1:
        return _one_machine(hosts)
    candidates = {host.name: _candidates(host, fabric, wanted) for host in hosts}
    refuse_all(_nothing_usable(host, fabric, network) for host in hosts if not candidates[host.name])
    shared = set.intersection(*(set(rows) for rows in candidates.values()))
    common = {subnet for subnet in shared if not _has_duplicate_address(hosts, candidates, subnet)}
    if not common and (routed := _routed(hosts)):
        return routed
    if not common:
        raise HostNotReady(_no_common(hosts, candidates, shared), hint=_no_common_hint(hosts))
    # Sorted, IPv4 first: sets have no fixed order, and equal input must give an equal plan.
    in_order = sorted(common, key=lambda subnet: (":" in subnet, subnet))
    best = max(in_order, key=lambda subnet: _rank([candidates[host.name][subnet][0] for host in hosts]))
    chosen = {host.name: candidates[host.name][best] for host in hosts}
    kind = "ib" if all(link.link == "infiniband" for link, _ in chosen.values()) else "ethernet"
    return FabricChoice(
        fabric=kind,
        reason=_reason(hosts, network, len(common), [link for link, _ in chosen.values()]),
        network=best,
        endpoints=_endpoints(hosts, chosen),
    )


def _routed(hosts: tuple[HostFacts, ...]) -> FabricChoice | None:
    """The networks of ddp_interface, where it is set on all hosts: a router between them joins subnets.

    Clouds give a host one address with the prefix length 32 (IPv6: 128). All hosts need an address of the same family.
    """
    for family in (4, 6):
        chosen = {host.name: _address_of(host, family) for host in hosts}
        found = {name: pair for name, pair in chosen.items() if pair is not None}
        if len(found) == len(hosts) == len({address for _, address in found.values()}):
            return FabricChoice(
                fabric="ib" if all(link.link == "infiniband" for link, _ in found.values()) else "ethernet",
                reason="ddp_interface, with a router between the hosts",
                network=_covering([address for _, address in found.values()]),
                endpoints=_endpoints(hosts, found),
            )
    return None


def _address_of(host: HostFacts, family: int) -> tuple[Interface, str] | None:
    """The first address of this family on the interfaces of ddp_interface."""
    named = named_interfaces(host) if host.interface else ()
    for link in sorted((link for link in host.interfaces if link.name in named), key=lambda row: named.index(row.name)):
        for _, address in link.networks():
            ip = ipaddress.ip_address(address)
            if ip.version == family and not (ip.is_loopback or ip.is_link_local):
                return link, address
    return None


def _covering(addresses: list[str]) -> str:
    """The smallest network that has all the addresses, which are of one family."""
    network = ipaddress.ip_network(addresses[0])
    while not all(ipaddress.ip_address(address) in network for address in addresses):
        network = network.supernet()
    return str(network)


def _endpoints(hosts: tuple[HostFacts, ...], chosen: dict[str, tuple[Interface, str]]) -> dict[str, Endpoint]:
    """Endpoint by host. Where ddp_interface names several NICs, all hosts must have the same number."""
    nics = {host.name: named_interfaces(host) if host.interface else () for host in hosts}
    if len({len(names) for names in nics.values()}) > 1 and any(len(names) > 1 for names in nics.values()):
        rows = [f"  {name}: {', '.join(names) or chosen[name][0].name}" for name, names in nics.items()]
        raise HostNotReady(
            "the hosts do not have the same number of NICs (ddp_interface):\n" + "\n".join(rows[:20]),
            hint="gloo and NCCL pair the NICs of hosts: name the same number of NICs on each host",
        )
    found = {}
    for name, (link, address) in chosen.items():
        first = (link.name, *(nic for nic in nics[name] if nic != link.name))
        found[name] = Endpoint(link.name, address, first if len(first) > 1 else ())
    return found


def named_interfaces(host: HostFacts) -> tuple[str, ...]:
    """The interfaces that ddp_interface names: a name, names with commas, or a prefix (`ib`) of several."""
    existing = [link.name for link in host.interfaces]
    listed = [name.strip() for name in (host.interface or "").split(",") if name.strip()]
    if len(listed) == 1 and listed[0] not in existing:
        return tuple(
            link.name for link in host.interfaces if link.name.startswith(listed[0]) and link.up and link.addresses
        )
    return tuple(listed) if all(name in existing for name in listed) else ()


def _one_machine(hosts: tuple[HostFacts, ...]) -> FabricChoice:
    """Loopback, which always works, for hosts that are one machine; ddp_interface overrides it."""
    endpoints = {}
    for host in hosts:
        name = next(iter(named_interfaces(host)), host.interface) or "lo"
        link = host.interface_named(name)
        if link is None:
            raise HostNotReady(
                f"{host.name}: interface {name} (ddp_interface) does not exist; it has {_table(host)}",
                hint=f"correct ddp_interface of {host.name} in the inventory",
            )
        addresses = sorted((ip for _, ip in link.networks()), key=lambda ip: ":" in ip)  # IPv4 first
        address = next(iter(addresses), "127.0.0.1")
        endpoints[host.name] = Endpoint(name, address)
    return FabricChoice("local", "all ranks are on one machine", "127.0.0.0/8", endpoints)


def _requested_network(network: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    if not network:
        return None
    try:
        return ipaddress.ip_network(network, strict=False)
    except ValueError:
        raise UsageError(f"ddp_job_network: {network!r} is not a network", hint="write it like 10.0.0.0/24") from None


def _candidates(
    host: HostFacts, fabric: str, wanted: ipaddress.IPv4Network | ipaddress.IPv6Network | None
) -> dict[str, tuple[Interface, str]]:
    """Usable interfaces of a host: subnet -> (interface, address)."""
    found: dict[str, tuple[Interface, str]] = {}
    named = named_interfaces(host) if host.interface else None
    for link in host.interfaces:
        if not _usable(link, named, fabric, any_bridge=wanted is not None):
            continue
        for subnet, address in link.networks():
            ip = ipaddress.ip_address(address)
            if ip.is_loopback or ip.is_link_local or (wanted is not None and ip not in wanted):
                continue
            key = str(wanted) if wanted is not None else subnet
            if key not in found or _rank([link]) > _rank([found[key][0]]):
                found[key] = (link, address)
    return found


def _has_duplicate_address(
    hosts: tuple[HostFacts, ...], candidates: dict[str, dict[str, tuple[Interface, str]]], subnet: str
) -> bool:
    """Do two machines have the same address in the subnet? Then each is behind its own NAT and cannot be reached."""
    machine_of: dict[str, str] = {}
    return any(machine_of.setdefault(candidates[host.name][subnet][1], host.machine) != host.machine for host in hosts)


def _usable(link: Interface, named: tuple[str, ...] | None, fabric: str, *, any_bridge: bool) -> bool:
    """A bridge with the default route is the host's own (br0); another one may belong to containers."""
    if named is not None:
        return link.name in named
    if not link.up or link.link not in ("ethernet", "infiniband"):
        return False
    if link.bridge and not (any_bridge or link.default_route):
        return False
    if link.name.startswith(LOCAL_ONLY):
        return False
    return {"auto": True, "ib": link.link == "infiniband", "ethernet": link.link == "ethernet"}[fabric]


def _rank(links: list[Interface]) -> tuple[int, int, int]:
    """Higher is better: InfiniBand, the slowest member's speed, the default route as the tie-break."""
    return (
        min(1 if link.link == "infiniband" else 0 for link in links),
        min(link.speed_mbps or 0 for link in links),
        min(1 if link.default_route else 0 for link in links),
    )


def _reason(hosts: tuple[HostFacts, ...], network: str, num_common: int, links: list[Interface]) -> str:
    if any(host.interface for host in hosts):
        return "ddp_interface"
    if network:
        return "ddp_job_network"
    if num_common == 1:
        return "the only subnet common to all hosts"
    speed = min(link.speed_mbps or 0 for link in links)
    if links[0].link == "infiniband":
        return f"InfiniBand, best of {num_common} common subnets"
    if speed:
        return f"the fastest of {num_common} common subnets ({speed} Mb/s)"
    return f"the default route's, of {num_common} common subnets of unknown speed (set ddp_job_network to choose)"


def _nothing_usable(host: HostFacts, fabric: str, network: str) -> Refused:
    """Why no interface of the host can be used, and the setting that decided it."""
    if host.interface and not named_interfaces(host):
        why = f"interface {host.interface} (ddp_interface) does not exist; it has {_table(host)}"
        return Refused(host.name, why, "correct ddp_interface of HOSTS in the inventory")
    what = {"ib": "InfiniBand interface with an address (IPoIB)", "ethernet": "ethernet interface"}.get(
        fabric, "interface"
    )
    inside = f" in {network}" if network else ""
    remedy = "set ddp_interface for HOSTS in the inventory, or ddp_job_network for all"
    if network:
        remedy = "set ddp_job_network to a network of these hosts, or remove it"
    elif fabric != "auto":
        remedy = "set ddp_job_fabric to auto" + (", or configure IPoIB on HOSTS" if fabric == "ib" else "")
    return Refused(host.name, f"no usable {what}{inside}; it has {_table(host)}", remedy)


def _no_common(
    hosts: tuple[HostFacts, ...], candidates: dict[str, dict[str, tuple[Interface, str]]], shared: set[str]
) -> str:
    rows = [
        f"  {host.name}: " + ", ".join(f"{address} in {subnet}" for subnet, (_, address) in sorted(found.items()))
        for host, found in ((host, candidates[host.name]) for host in hosts[:20])
    ]
    same = f" (in {', '.join(sorted(shared))} two have the same address)" if shared else ""
    return f"the hosts have no subnet in common{same}:\n" + "\n".join(rows)


def _no_common_hint(hosts: tuple[HostFacts, ...]) -> str:
    unset = [host.name for host in hosts if not host.interface]
    if not unset:
        return "ddp_interface must name interfaces with different addresses of one family (IPv4 or IPv6) on all hosts"
    return (
        "where a router joins them: set ddp_interface for every host, or ddp_job_network to a network that has all "
        "their addresses"
    )


def _table(host: HostFacts) -> str:
    rows = [f"{link.name} ({', '.join(link.addresses) or 'no address'})" for link in host.interfaces]
    return ", ".join(rows) or "none"
