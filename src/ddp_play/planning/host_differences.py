"""Differences between the hosts of a job: errors where they break training, warnings otherwise. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.fabric import FabricChoice
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.job import Job

ROWS_SHOWN = 20


def check_torch(hosts: tuple[HostFacts, ...]) -> None:
    """HostNotReady if torch versions differ: ranks would hang or compute wrong numbers. Hosts without torch pass."""
    found = {host.name: host.rank_torch for host in hosts if host.rank_torch}
    if len(set(found.values())) > 1:
        raise HostNotReady(
            "the hosts do not have the same torch:\n" + table(found),
            hint="install one version everywhere, point ddp_python to it, or use an image",
        )


def check_infiniband(job: Job, hosts: tuple[HostFacts, ...], *, backend: str, fabric: str) -> None:
    """HostNotReady if numbers of InfiniBand ports differ (NCCL pairs them), unless the job sets NCCL_IB_HCA."""
    if "nccl" not in backend or fabric != "ib" or "NCCL_IB_HCA" in job.env:
        return
    ports = {host.name: [f"{port.device}:{port.port}" for port in host.infiniband_ports] for host in hosts}
    counts = {len(names) for names in ports.values()}
    shown = table({name: ", ".join(names) or "none" for name, names in ports.items()})
    if len(counts) > 1:
        raise HostNotReady(
            f"the hosts do not have the same number of active InfiniBand ports:\n{shown}",
            hint="cable or enable the missing ports (ibstat), leave hosts out with --limit, or set NCCL_IB_HCA in "
            "ddp_job_env",
        )
    if counts == {0} and job.fabric == "ib":
        raise HostNotReady(
            "ddp_job_fabric is ib and no host has an active InfiniBand port: NCCL would use sockets",
            hint="check ibstat on the hosts, or set ddp_job_fabric to auto",
        )


def differences(hosts: tuple[HostFacts, ...], fabric: FabricChoice) -> list[str]:
    """Warnings about differences that do not prevent training."""
    found = []
    mtus = {host.name: str(_mtu(host, fabric)) for host in hosts}
    if len(set(mtus.values())) > 1:
        found.append("the MTU differs between hosts: " + one_line(mtus))
    with_torch = [host.name for host in hosts if host.rank_torch]
    without = [host.name for host in hosts if not host.rank_torch]
    if with_torch and without:
        found.append(f"the ranks' Python has torch on {short_list(with_torch)} and not on {short_list(without)}")
    rates = {host.name: f"{max(port.rate_gbps for port in host.infiniband_ports):g} Gb/s" for host in hosts
             if host.infiniband_ports}  # fmt: skip
    if fabric.fabric == "ib" and len(set(rates.values())) > 1:
        found.append("the InfiniBand rate differs between hosts: " + one_line(rates))
    return found


def moved_state(hosts: tuple[HostFacts, ...]) -> list[str]:
    """One warning if hosts keep the state of runs in another than the usual directory, which is on a network mount."""
    moved = {host.name: host.state_dir for host in hosts if host.state_dir_reason}
    if not moved:
        return []
    why = next(host.state_dir_reason for host in hosts if host.state_dir_reason)
    return [f"the state of runs is in {one_line(moved)}: {why}; set ddp_state_dir to choose a directory"]


def _mtu(host: HostFacts, fabric: FabricChoice) -> int:
    link = host.interface_named(fabric.endpoints[host.name].interface)
    return link.mtu if link else 0


def table(rows: Mapping[str, str]) -> str:
    """One line per host, for a message; at most ROWS_SHOWN of them."""
    lines = [f"  {name}: {value}" for name, value in sorted(rows.items())]
    more = [f"  and {len(lines) - ROWS_SHOWN} more"] if len(lines) > ROWS_SHOWN else []
    return "\n".join(lines[:ROWS_SHOWN] + more)


def one_line(rows: Mapping[str, str]) -> str:
    """Hosts by value: `1500 on h1, h2; 9000 on h3`."""
    by_value: dict[str, list[str]] = {}
    for name, value in rows.items():
        by_value.setdefault(value, []).append(name)
    return "; ".join(f"{value} on {short_list(names)}" for value, names in sorted(by_value.items()))
