"""What all ranks of a plan share, and where one rank stands: the two inputs of its environment and container."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.backend import BackendChoice
    from ddp_play.planning.fabric import Endpoint, FabricChoice
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.job import Job
    from ddp_play.planning.rendezvous import Rendezvous


@dataclass(frozen=True, slots=True)
class Caller:
    """What the caller brings besides the job: its environment for bare keys, and names of secrets.

    `secret_names` are told to the ranks as files, `secret_env` as variables.
    """

    caller_env: dict[str, str]
    secret_names: tuple[str, ...] = ()
    secret_env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankContext:
    """What was decided for all ranks of a plan, once: the plan and each rank's part of it are made from this."""

    job: Job
    hosts: tuple[HostFacts, ...]
    fabric: FabricChoice
    backend_choice: BackendChoice
    ranks: Mapping[str, range]  # by host
    slots: Mapping[str, tuple[str, ...]]  # by host: the leases that its ranks choose from
    shared_dirs: Mapping[str, str]  # by host; empty where there is no shared directory
    rendezvous: Rendezvous
    caller: Caller

    @property
    def backend(self) -> str:
        """The backend of torch.distributed."""
        return self.backend_choice.backend

    @property
    def world_size(self) -> int:
        """Ranks of all hosts."""
        return self.ranks[self.hosts[-1].name].stop

    @property
    def head_addr(self) -> str:
        """Address of the first host on the fabric."""
        return self.endpoint(self.hosts[0]).address

    @property
    def docker(self) -> bool:
        """Do ranks run in containers?"""
        return self.job.chosen_runtime == "docker"

    @property
    def torchrun(self) -> bool:
        """Does a torchrun on each host start the ranks?"""
        return self.job.launcher == "torchrun"

    def endpoint(self, host: HostFacts) -> Endpoint:
        """Where the host meets the others."""
        return self.fabric.endpoints[host.name]

    def uses_rdma(self, host: HostFacts) -> bool:
        """Will this host's ranks open RDMA devices?"""
        return bool(host.rdma) and (self.fabric.fabric == "ib" or "nccl" in self.backend)


@dataclass(frozen=True, slots=True)
class Place:
    """One rank's place: its host, its numbers, and the directories of that host."""

    host: HostFacts
    node: int
    rank: int
    local_rank: int
    local_world_size: int
    user: tuple[int, int]
    workdir: str
    source_dir: str
    shared_dir: str
