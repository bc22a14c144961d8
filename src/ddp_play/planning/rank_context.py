"""Decisions shared by all ranks of a plan, and place of those of one host: input of environments and containers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.backend import BackendChoice
    from ddp_play.planning.fabric import Endpoint, FabricChoice
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.job import Job
    from ddp_play.planning.numa import NumaBinding
    from ddp_play.planning.rendezvous import Rendezvous


@dataclass(frozen=True, slots=True)
class Caller:
    """Input of the caller besides the job: its environment, for bare keys, and the names of secrets.

    Ranks get the secrets of `secret_names` as files and those of `secret_env` as variables.
    """

    caller_env: dict[str, str]
    secret_names: tuple[str, ...] = ()
    secret_env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RankContext:
    """Decisions that all ranks share, made once. The plan and the parts of hosts and ranks are made from them."""

    job: Job
    hosts: tuple[HostFacts, ...]
    fabric: FabricChoice
    backend_choice: BackendChoice
    ranks: Mapping[str, range]  # by host
    slots: Mapping[str, tuple[str, ...]]  # by host: slot leases; each rank takes one
    shared_dirs: Mapping[str, str]  # by host; empty where there is no shared directory
    rendezvous: Rendezvous
    caller: Caller
    torch: str = field(init=False)  # version that all ranks have; empty if it is not known of every host

    def __post_init__(self) -> None:
        """Compare the hosts once and not once per rank."""
        object.__setattr__(self, "torch", self._common_torch())

    @property
    def backend(self) -> str:
        """The backend of torch.distributed."""
        return self.backend_choice.backend

    @property
    def world_size(self) -> int:
        """Number of ranks on all hosts."""
        return self.ranks[self.hosts[-1].name].stop

    @property
    def head_addr(self) -> str:
        """Address of the head on the fabric; the head is the first host."""
        return self.endpoint(self.hosts[0]).address

    @property
    def docker(self) -> bool:
        """Do ranks run in containers of Docker?"""
        return self.job.chosen_runtime == "docker"

    @property
    def apptainer(self) -> bool:
        """Does Apptainer start the ranks, as processes of the host in an image?"""
        return self.job.chosen_runtime == "apptainer"

    @property
    def pyxis(self) -> bool:
        """Does pyxis make a container for the ranks of each node of a Slurm job?"""
        return self.job.chosen_runtime == "pyxis"

    @property
    def in_image(self) -> bool:
        """Do ranks have the programs of an image, and not those of the host?"""
        return self.job.in_image

    @property
    def torchrun(self) -> bool:
        """Does torchrun start the ranks of each host?"""
        return self.job.launcher == "torchrun"

    def _common_torch(self) -> str:
        if self.apptainer or self.pyxis:
            return ""
        images = [host.engine.image for host in self.hosts if host.engine and host.engine.image]
        found = [image.torch for image in images] if self.docker else [host.rank_torch for host in self.hosts]
        return found[0] if len(found) == len(self.hosts) and len(set(found)) == 1 else ""

    def endpoint(self, host: HostFacts) -> Endpoint:
        """Endpoint of the host on the fabric."""
        return self.fabric.endpoints[host.name]

    def uses_rdma(self, host: HostFacts) -> bool:
        """Do the ranks of this host use RDMA devices?"""
        return bool(host.rdma) and (self.fabric.fabric == "ib" or "nccl" in self.backend)


@dataclass(frozen=True, slots=True)
class Place:
    """Place of the ranks of one host: the host, its number, and the directories there."""

    host: HostFacts
    node: int
    local_world_size: int
    user: tuple[int, int]
    workdir: str
    source_dir: str
    shared_dir: str
    numa_mode: str  # none, node or socket
    numa: tuple[NumaBinding, ...]  # of each rank; empty if they are not bound
