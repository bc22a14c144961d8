"""Docker networks of a lab: subnets in use, creation, removal."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from docker.errors import APIError
from docker.types import IPAMConfig, IPAMPool

from ddp_play.errors import UsageError
from ddp_play.lab.docker_client import engine_errors
from ddp_play.lab.layout import LABEL
from ddp_play.lab.machine_resources import routed_networks

if TYPE_CHECKING:
    from docker import DockerClient

    from ddp_play.lab.layout import LabPlan, Network


class SubnetTaken(UsageError):  # noqa: N818 - the name states what is wrong
    """Another network took the subnet between planning and creation."""


def taken_networks(client: DockerClient) -> tuple[ipaddress.IPv4Network, ...]:
    """Networks that the machine routes, and those of the engine, including bridges that are down."""
    found = list(routed_networks())
    with engine_errors("list networks"):
        for network in client.networks.list():
            for pool in (network.attrs.get("IPAM") or {}).get("Config") or ():
                if "." in pool.get("Subnet", ""):
                    found.append(ipaddress.IPv4Network(pool["Subnet"], strict=False))
    return tuple(found)


def create_networks(client: DockerClient, plan: LabPlan) -> None:
    """Create missing networks. Raises SubnetTaken if another network has the addresses, and HostNotReady."""
    for network in plan.networks:
        with engine_errors(f"create network {network.name} ({network.subnet})"):
            mine = {"label": f"{LABEL}={plan.spec.name}"}
            if client.networks.list(names=[f"^{network.name}$"], filters=mine):
                continue
            try:
                _create(client, plan, network)
            except APIError as error:
                if "overlaps" not in str(error.explanation):
                    raise
                raise SubnetTaken(f"another network has just taken {network.subnet}") from None


def remove_networks(client: DockerClient, lab: str) -> int:
    """Remove the networks of a lab and return their number. Raises HostNotReady."""
    with engine_errors(f"remove the networks of lab {lab}"):
        networks = client.networks.list(filters={"label": f"{LABEL}={lab}"})
        for network in networks:
            network.remove()
    return len(networks)


def _create(client: DockerClient, plan: LabPlan, network: Network) -> None:
    client.networks.create(
        network.name,
        driver="bridge",
        # Only the SSH network has a route to other networks; the fast one connects nothing but the hosts.
        internal=len(plan.networks) > 1 and network.kind == "fast",
        labels=plan.labels,
        ipam=IPAMConfig(pool_configs=[IPAMPool(subnet=network.subnet, gateway=network.gateway)]),
    )
