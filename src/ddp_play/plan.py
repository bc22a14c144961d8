"""The plan: a job bound to hosts. Pure: the same job and facts give the same plan, which `run` executes as it is."""

from __future__ import annotations

import contextlib
import gc
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.rankenv import EnvVar

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class RankPlan:
    """One rank: its environment with the source of each value, its command, its container."""

    rank: int
    local_rank: int
    argv: tuple[str, ...]
    env: tuple[EnvVar, ...]
    container: str = ""
    create: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostPlan:
    """One host's part: its endpoint on the fabric, who the ranks run as, where they work, its ranks."""

    name: str
    interface: str
    address: str
    user: tuple[int, int]
    user_name: str
    workdir: str
    source_dir: str
    gpus: tuple[int, ...]
    ranks: tuple[RankPlan, ...]
    shared_dir: str = ""
    sends_source: bool = True
    speed_mbps: int | None = None  # of the interface; None where its driver does not say
    rdma_ports: tuple[str, ...] = ()  # active ones
    slots: tuple[str, ...] = ()  # the leases of which each rank needs one


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that will happen, before it happens."""

    job: str
    runtime: str
    image: str
    image_id: str
    image_pull: str
    backend: str
    backend_reason: str
    fabric: str
    fabric_reason: str
    network: str
    init_method: str
    init_url: str
    head: str
    head_addr: str
    port_range: tuple[int, int]
    world_size: int
    hosts: tuple[HostPlan, ...]
    source: str
    source_shared: bool
    timeouts: dict[str, float]
    signal: str
    warn_signal: str
    artifacts: tuple[str, ...]
    artifacts_max_mib: int
    probe: bool
    left_out: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The stable, printable form. Spelt out: `dataclasses.asdict` copies deeply, 2 s at 10,000 ranks."""
        return {**_fields(self), "hosts": [_host_to_json(host) for host in self.hosts]}

    def host_of(self, rank: int) -> str:
        """The host a rank runs on."""
        return next(host.name for host in self.hosts for row in host.ranks if row.rank == rank)


def _fields(value: Plan | HostPlan | RankPlan | EnvVar) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _host_to_json(host: HostPlan) -> dict[str, Any]:
    ranks = [{**_fields(rank), "env": [_fields(var) for var in rank.env]} for rank in host.ranks]
    return {**_fields(host), "ranks": ranks}


@contextlib.contextmanager
def many_objects() -> Iterator[None]:
    """A quarter of a million small objects and no garbage: the collector would take half of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def plan_from_json(data: dict[str, Any]) -> Plan:
    """The plan written by `to_json`."""
    with many_objects():
        return _plan_from_json(data)


def _plan_from_json(data: dict[str, Any]) -> Plan:
    hosts = tuple(
        HostPlan(
            **{
                **host,
                "user": tuple(host["user"]),
                "gpus": tuple(host["gpus"]),
                "rdma_ports": tuple(host["rdma_ports"]),
                "slots": tuple(host.get("slots", ())),
                "ranks": tuple(_rank_from_json(rank) for rank in host["ranks"]),
            }
        )
        for host in data["hosts"]
    )
    pairs = {
        "port_range": tuple(data["port_range"]),
        "artifacts": tuple(data["artifacts"]),
        "warnings": tuple(data["warnings"]),
        "left_out": tuple((name, why) for name, why in data["left_out"]),
    }
    return Plan(**{**data, **pairs, "hosts": hosts})


def _rank_from_json(data: dict[str, Any]) -> RankPlan:
    env = tuple(EnvVar(**item) for item in data["env"])
    return RankPlan(**{**data, "argv": tuple(data["argv"]), "create": tuple(data["create"]), "env": env})


def command_line(rank: RankPlan) -> str:
    """What a person would type on the host for this rank: `docker run ...`, or the command itself."""
    if rank.create:
        return shlex.join(("docker", "run", *rank.create[1:]))
    return shlex.join(rank.argv)
