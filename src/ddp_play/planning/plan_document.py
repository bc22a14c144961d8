"""The plan: a job bound to hosts, and its JSON form. `run` executes it unchanged. Pure."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from typing import Any

from ddp_play.errors import UsageError
from ddp_play.planning.launch_placeholders import (
    THIS_ADDRESS,
    THIS_CPUS,
    THIS_HOST,
    THIS_LOCAL_RANK,
    THIS_MEMORY_NODES,
    THIS_NODE,
    THIS_RANK,
    bind,
    rank_of_local,
)
from ddp_play.planning.numa import NumaBinding
from ddp_play.planning.rank_environment import EnvVar

# Fields of a host in plan.json. The others are in its kind, which equal hosts share.
OF_ONE_HOST = ("name", "node", "address", "slots", "sends_source")


@dataclass(frozen=True, slots=True)
class Unit:
    """What a host starts, a rank or the torchrun of its ranks: command, environment with sources, container.

    Hosts hold it as a template: placeholders (`<this_rank>`) stand for what differs among ranks and equal hosts.
    """

    argv: tuple[str, ...]
    env: tuple[EnvVar, ...]
    container: str = ""
    create: tuple[str, ...] = ()
    image_words: tuple[str, ...] = ()  # before the command: they start it in an image, as a process of the host

    def bound(self, values: dict[str, str]) -> Unit:
        """The unit with the values of these placeholders."""
        env = tuple(dataclasses.replace(var, value=bind(var.value, values)) if var.late else var for var in self.env)
        rows = (self.argv, self.create, self.image_words)
        argv, create, image_words = (tuple(bind(word, values) for word in words) for words in rows)
        return Unit(argv, env, bind(self.container, values), create, image_words)


@dataclass(frozen=True, slots=True)
class HostPlan:
    """Part of one host: endpoint on the fabric, user, directories and ranks."""

    name: str
    node: int  # number of the host
    ranks: range
    address: str
    interface: str
    user: tuple[int, int]
    user_name: str
    workdir: str
    source_dir: str
    gpus: tuple[int, ...]
    rank_template: Unit
    agent_template: Unit | None = None  # the torchrun of the host, where torchrun starts the ranks
    shared_dir: str = ""
    sends_source: bool = True
    speed_mbps: int | None = None  # of the interface; None if its driver does not report it
    rdma_ports: tuple[str, ...] = ()  # active ones
    slots: tuple[str, ...] = ()  # slot leases; each rank takes one
    numa_mode: str = "none"
    numa: tuple[NumaBinding, ...] = ()  # of each rank; empty if they are not bound
    progress: str = ""  # glob of files that show progress between attempts

    def rank(self, number: int) -> Unit:
        """The rank of this number."""
        values = {**self._values(), THIS_RANK: str(number), THIS_LOCAL_RANK: str(number - self.ranks.start)}
        if binding := self.binding(number):
            values |= {THIS_CPUS: binding.cpus, THIS_MEMORY_NODES: binding.memory_nodes}
        return self.rank_template.bound(values)

    def binding(self, number: int) -> NumaBinding | None:
        """NUMA binding of the rank of this number."""
        return self.numa[number - self.ranks.start] if self.numa else None

    @property
    def agent(self) -> Unit | None:
        """The torchrun of the host, where torchrun starts the ranks."""
        if self.agent_template is None:
            return None
        numbers = {rank_of_local(local): str(number) for local, number in enumerate(self.ranks)}
        return self.agent_template.bound({**self._values(), **numbers})

    def _values(self) -> dict[str, str]:
        return {THIS_HOST: self.name, THIS_NODE: str(self.node), THIS_ADDRESS: self.address}


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
    check: str = "none"  # plans of earlier versions know none
    samples_s: float = 0.0  # between samples of a host; 0: none
    launcher: str = "ranks"
    init_reason: str = ""
    store_url: str = ""
    script: tuple[str, ...] = ()  # lines for the training script, where the rendezvous needs more than the usual call
    left_out: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Content of plan.json. `kinds` holds what equal hosts have in common; a host names its kind by number."""
        kinds: dict[tuple[Any, ...], int] = {}
        hosts = []
        for host in self.hosts:
            kind = kinds.setdefault(_kind_of(host), len(kinds))
            own = {name: getattr(host, name) for name in OF_ONE_HOST}
            hosts.append({**own, "first_rank": host.ranks.start, "num_ranks": len(host.ranks), "kind": kind})
        return {**_fields(self), "hosts": hosts, "kinds": [_kind_to_json(kind) for kind in kinds]}

    def rank_to_json(self, rank: int) -> dict[str, Any]:
        """One rank with its host; `agent` is the torchrun that starts it, if one does."""
        host = self.host_of(rank)
        own = {"rank": rank, "local_rank": rank - host.ranks.start, "host": host.name, "workdir": host.workdir}
        binding, agent = host.binding(rank), host.agent
        numa = _fields(binding) if binding else None
        return {**own, **unit_to_json(host.rank(rank)), "numa": numa, "agent": unit_to_json(agent) if agent else None}

    def host_of(self, rank: int) -> HostPlan:
        """The host of a rank."""
        return next(host for host in self.hosts if rank in host.ranks)


_OF_KIND = tuple(name for name in HostPlan.__dataclass_fields__ if name not in (*OF_ONE_HOST, "ranks"))


def _kind_of(host: HostPlan) -> tuple[Any, ...]:
    return tuple(getattr(host, name) for name in _OF_KIND)


def _kind_to_json(kind: tuple[Any, ...]) -> dict[str, Any]:
    fields = dict(zip(_OF_KIND, kind, strict=True))
    units = {name: unit_to_json(value) for name, value in fields.items() if isinstance(value, Unit)}
    return {**fields, **units, "numa": [_fields(binding) for binding in fields["numa"]]}


def unit_to_json(unit: Unit) -> dict[str, Any]:
    """The unit as JSON."""
    return {**_fields(unit), "env": [_fields(var) for var in unit.env]}


def _fields(value: Plan | Unit | EnvVar | NumaBinding) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


def plan_from_json(data: dict[str, Any]) -> Plan:
    """Plan from the content of plan.json. UsageError if it has the form of earlier versions."""
    _check_form(data)
    kinds = [_kind_from_json(kind) for kind in data["kinds"]]
    tuples = {name: tuple(data[name]) for name in ("port_range", "artifacts", "script", "warnings")}
    left_out = tuple((name, why) for name, why in data["left_out"])
    hosts = tuple(
        HostPlan(
            **{name: host[name] for name in OF_ONE_HOST if name != "slots"},
            **kinds[host["kind"]],
            slots=tuple(host["slots"]),
            ranks=_ranks_of(host),
        )
        for host in data["hosts"]
    )
    fields = {name: value for name, value in data.items() if name != "kinds"}
    return Plan(**{**fields, **tuples, "left_out": left_out, "hosts": hosts})


def ranks_by_host(data: dict[str, Any]) -> dict[str, range]:
    """Ranks of each host in the content of plan.json, without reading the rest. UsageError as `plan_from_json`."""
    _check_form(data)
    return {host["name"]: _ranks_of(host) for host in data["hosts"]}


def _check_form(data: dict[str, Any]) -> None:
    if "kinds" not in data:
        raise UsageError("this plan has the form of an earlier version", hint="use the ddp-play that made it")


def _ranks_of(host: dict[str, Any]) -> range:
    return range(host["first_rank"], host["first_rank"] + host["num_ranks"])


def _kind_from_json(kind: dict[str, Any]) -> dict[str, Any]:
    agent = kind["agent_template"]
    return {
        **kind,
        **{name: tuple(kind[name]) for name in ("user", "gpus", "rdma_ports")},
        "numa": tuple(NumaBinding(**row) for row in kind["numa"]),
        "rank_template": _unit_from_json(kind["rank_template"]),
        "agent_template": _unit_from_json(agent) if agent else None,
    }


def _unit_from_json(data: dict[str, Any]) -> Unit:
    env = tuple(EnvVar(**item) for item in data["env"])
    words = tuple(data.get("image_words", ()))  # plans of earlier versions have none
    return Unit(tuple(data["argv"]), env, data["container"], tuple(data["create"]), words)


def command_line(unit: Unit) -> str:
    """Shell command that starts the rank (or torchrun) on its host: of Docker, of Apptainer, the job's own.

    With pyxis it is a step like that which makes the container.
    """
    if unit.create:
        return shlex.join(("docker", "run", *unit.create[1:]))
    return shlex.join((*unit.image_words, *unit.argv))
