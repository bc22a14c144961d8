"""Plan of a lab: names and addresses of its containers, volumes and networks, made before their creation."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.errors import UsageError
from ddp_play.lab.spec import LabSpec  # noqa: TC001 - pydantic reads the annotation at run time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

LABEL = "ddp-play.lab"
LABEL_STATE = "ddp-play.lab.state"
LABEL_HOST = "ddp-play.lab.host"
# Pool for subnets of labs: 256 networks of 253 hosts each, in a range that few networks use.
_POOL = ipaddress.IPv4Network("10.213.0.0/16")


@dataclass(frozen=True)
class Network:
    """One network of a lab; `kind` is `fast`, or `mgmt` for the slow network for SSH if the lab has two networks."""

    name: str
    kind: str
    subnet: str
    gateway: str


@dataclass(frozen=True)
class Host:
    """One host of a lab; `addresses` are in the order of the lab's networks, and SSH uses the first."""

    name: str
    container: str
    volume: str
    slots: int
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class LabPlan:
    """Everything that `up` creates and `down` removes."""

    spec: LabSpec
    networks: tuple[Network, ...]
    hosts: tuple[Host, ...]
    shared_volume: str

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every container, volume and network of this lab."""
        return {LABEL: self.spec.name}


def plan_lab(spec: LabSpec, *, taken: Sequence[ipaddress.IPv4Network] = ()) -> LabPlan:
    """Plan a checked spec; `taken`: networks in use on this machine. Raises UsageError if no subnet is free."""
    subnets = _requested_subnets(spec, taken) or _free_subnets(spec.num_fabrics, taken)
    kinds = ("fast",) if spec.num_fabrics == 1 else ("mgmt", "fast")
    prefix = f"ddp-play-{spec.name}"
    # Docker numbers a container's interfaces by network name. The digit in the name makes the SSH network eth0.
    networks = tuple(
        Network(name=f"{prefix}-{i}-{kind}", kind=kind, subnet=str(net), gateway=str(net[1]))
        for i, (kind, net) in enumerate(zip(kinds, subnets, strict=True))
    )
    hosts = tuple(
        Host(
            name=f"h{i}",
            container=f"{prefix}-h{i}",
            volume=f"{prefix}-h{i}-docker",
            slots=slots,
            addresses=tuple(str(net[i + 1]) for net in subnets),
        )
        for i, slots in enumerate(spec.slots, start=1)
    )
    return LabPlan(spec=spec, networks=networks, hosts=hosts, shared_volume=f"{prefix}-shared")


def find_host(plan: LabPlan, name: str) -> Host:
    """Host by name (`h2`) or number (`2`). Raises UsageError."""
    for host in plan.hosts:
        if name in (host.name, host.name.removeprefix("h")):
            return host
    raise UsageError(
        f"lab {plan.spec.name} has no host {name}",
        hint=f"hosts: {plan.hosts[0].name} to {plan.hosts[-1].name}",
    )


def _requested_subnets(spec: LabSpec, taken: Sequence[ipaddress.IPv4Network]) -> tuple[ipaddress.IPv4Network, ...]:
    nets = tuple(ipaddress.IPv4Network(text) for text in spec.subnets)
    for net in nets:
        clash = next((other for other in taken if other.overlaps(net)), None)
        if clash is not None:
            raise UsageError(
                f"--subnet {net} overlaps {clash}, which this machine already uses",
                hint="leave --subnet out and a free one is chosen",
            )
    return nets


def _free_subnets(count: int, taken: Sequence[ipaddress.IPv4Network]) -> tuple[ipaddress.IPv4Network, ...]:
    free = _free_networks(taken)
    found = [net for _, net in zip(range(count), free, strict=False)]
    if len(found) < count:
        raise UsageError(f"no free network is left in {_POOL}", hint="name one with --subnet")
    return tuple(found)


def _free_networks(taken: Sequence[ipaddress.IPv4Network]) -> Iterator[ipaddress.IPv4Network]:
    return (net for net in _POOL.subnets(new_prefix=24) if not any(net.overlaps(other) for other in taken))
