"""Addresses at which hosts of a check test each other: those that a job without settings of its own would use. Pure."""

from __future__ import annotations

import ipaddress
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ddp_play.errors import DdpPlayError
from ddp_play.planning.fabric import LOCAL_ONLY, choose_fabric

if TYPE_CHECKING:
    from ddp_play.planning.host_facts import HostFacts, Interface

SAMPLED_PORTS = 12


@dataclass(frozen=True, slots=True)
class PeerNetwork:
    """The network between the hosts; without one, `problem` and `hint` say why."""

    network: str = ""
    addresses: tuple[tuple[str, str], ...] = ()  # host, address
    interfaces: tuple[tuple[str, str], ...] = ()  # host, interface
    problem: str = ""
    hint: str = ""


def network_between(hosts: tuple[HostFacts, ...]) -> PeerNetwork:
    """The network that a job would choose. An address that two hosts have counts for neither where each has another."""
    if len(hosts) < 2:
        return PeerNetwork()
    try:
        choice = choose_fabric(_without_shared_addresses(hosts))
    except DdpPlayError as error:
        return PeerNetwork(problem=error.message, hint=error.hint)
    return PeerNetwork(
        choice.network,
        tuple((name, end.address) for name, end in choice.endpoints.items()),
        tuple((name, end.interface) for name, end in choice.endpoints.items()),
    )


def among(network: PeerNetwork, hosts: tuple[HostFacts, ...]) -> PeerNetwork:
    """The part of a network that these hosts are on."""
    known = {host.name for host in hosts}
    return replace(
        network,
        addresses=tuple((host, value) for host, value in network.addresses if host in known),
        interfaces=tuple((host, value) for host, value in network.interfaces if host in known),
    )


def _without_shared_addresses(hosts: tuple[HostFacts, ...]) -> tuple[HostFacts, ...]:
    """Hosts without the addresses that others have too, as far as the interface keeps one."""
    shared = set(duplicate_addresses(hosts))
    return tuple(replace(host, interfaces=tuple(_without(link, shared) for link in host.interfaces)) for host in hosts)


def _without(link: Interface, shared: set[str]) -> Interface:
    kept = tuple(address for address in link.addresses if address.partition("/")[0] not in shared)
    return replace(link, addresses=kept) if kept else link


def duplicate_addresses(hosts: tuple[HostFacts, ...]) -> dict[str, tuple[str, ...]]:
    """Addresses that several machines have on an interface to other hosts, and the names of these hosts."""
    found: dict[str, dict[str, str]] = {}
    for host in hosts:
        for link in host.interfaces:
            if link.name.startswith(LOCAL_ONLY) or (link.bridge and not link.default_route):
                continue
            for _, address in link.networks():
                if not (ipaddress.ip_address(address).is_loopback or ipaddress.ip_address(address).is_link_local):
                    found.setdefault(address, {})[host.machine] = host.name
    return {address: tuple(by_machine.values()) for address, by_machine in found.items() if len(by_machine) > 1}


def sampled_ports(first: int, last: int) -> tuple[int, ...]:
    """Ports of a range that are tested: the first, the last, and some between them."""
    number = min(SAMPLED_PORTS, last - first + 1)
    if number < 2:
        return (first,)
    return tuple(sorted({first + (last - first) * at // (number - 1) for at in range(number)}))


def same_machine(hosts: tuple[HostFacts, ...]) -> dict[str, tuple[str, ...]]:
    """Machines that several names of the inventory mean, and these names."""
    count = Counter(host.machine for host in hosts)
    return {
        machine: tuple(host.name for host in hosts if host.machine == machine)
        for machine, number in count.items()
        if number > 1
    }
