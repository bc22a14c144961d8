"""The plan: a job bound to hosts, and its JSON form. `run` executes it unchanged. Pure."""

from __future__ import annotations

import contextlib
import gc
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.planning.rank_environment import EnvVar

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
class AgentPlan:
    """The torchrun of a host, where torchrun starts the ranks: command, environment and container."""

    argv: tuple[str, ...]
    env: tuple[EnvVar, ...]
    container: str = ""
    create: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostPlan:
    """Part of one host: endpoint on the fabric, user, directories and ranks."""

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
    speed_mbps: int | None = None  # of the interface; None if its driver does not report it
    rdma_ports: tuple[str, ...] = ()  # active ones
    slots: tuple[str, ...] = ()  # slot leases; each rank takes one
    agent: AgentPlan | None = None
    progress: str = ""  # glob of files that show progress between attempts


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is known of a run before it starts."""

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
    launcher: str = "ranks"
    init_reason: str = ""
    store_url: str = ""
    script: tuple[str, ...] = ()  # lines for the training script, where the rendezvous needs more than the usual call
    left_out: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Content of plan.json. Not `dataclasses.asdict`: it copies deeply, 2 s at 10,000 ranks."""
        return {**_fields(self), "hosts": [_host_to_json(host) for host in self.hosts]}

    def host_of(self, rank: int) -> str:
        """Name of the host of a rank."""
        return next(host.name for host in self.hosts for row in host.ranks if row.rank == rank)


def _fields(value: Plan | HostPlan | AgentPlan | RankPlan | EnvVar) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def _host_to_json(host: HostPlan) -> dict[str, Any]:
    agent = _unit_to_json(host.agent) if host.agent else None
    return {**_fields(host), "ranks": [_unit_to_json(rank) for rank in host.ranks], "agent": agent}


def _unit_to_json(unit: RankPlan | AgentPlan) -> dict[str, Any]:
    return {**_fields(unit), "env": [_fields(var) for var in unit.env]}


@contextlib.contextmanager
def many_objects() -> Iterator[None]:
    """Switch the garbage collector off: it takes half of the time to load a plan of 10,000 ranks."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def plan_from_json(data: dict[str, Any]) -> Plan:
    """Plan from the content of plan.json."""
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
                "ranks": tuple(RankPlan(**_unit_from_json(rank)) for rank in host["ranks"]),
                "agent": AgentPlan(**_unit_from_json(host["agent"])) if host["agent"] else None,
            }
        )
        for host in data["hosts"]
    )
    pairs = {
        "port_range": tuple(data["port_range"]),
        "artifacts": tuple(data["artifacts"]),
        "script": tuple(data["script"]),
        "warnings": tuple(data["warnings"]),
        "left_out": tuple((name, why) for name, why in data["left_out"]),
    }
    return Plan(**{**data, **pairs, "hosts": hosts})


def _unit_from_json(data: dict[str, Any]) -> dict[str, Any]:
    env = tuple(EnvVar(**item) for item in data["env"])
    return {**data, "argv": tuple(data["argv"]), "create": tuple(data["create"]), "env": env}


def command_line(unit: RankPlan | AgentPlan) -> str:
    """Shell command that starts the rank (or torchrun) on its host: `docker run ...`, or the command of the job."""
    if unit.create:
        return shlex.join(("docker", "run", *unit.create[1:]))
    return shlex.join(unit.argv)
