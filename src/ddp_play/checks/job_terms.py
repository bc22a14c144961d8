"""Terms of a job on its hosts: network, ports and limits of its ranks, where they are not those of any job. Pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.checks.peer_addresses import PeerNetwork
from ddp_play.planning.job_values import PORT_RANGE
from ddp_play.planning.numa import VISIBLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.job import Job
    from ddp_play.planning.plan_document import Plan

LEAST_FILES = 512  # open files of a login, with which ranks of a job of a few hosts still start and connect


@dataclass(frozen=True, slots=True)
class JobTerms:
    """By default those of a job without settings of its own, whose ranks are processes."""

    network: PeerNetwork | None = None  # None: that which such a job would choose
    port_range: tuple[int, int] = PORT_RANGE
    in_containers: bool = False  # limits of the login are not those of the ranks
    own_shm: bool = False  # each container has a /dev/shm of its own size
    least_files: int = 1024  # open files, below which a host fails
    may_use_rdma: bool = True  # where there are devices: then memory must be locked
    image: str = ""  # of the containers
    uses_gpus: bool = False
    chooses_gpus: bool = False  # its environment leaves some out

    def to_json(self) -> dict[str, Any]:
        """For another process."""
        return asdict(self)


def terms_of(job: Job, plan: Plan) -> JobTerms:
    """The terms of a job with this plan. Of one host there is no network to test."""
    in_containers = plan.runtime == "docker"
    network = None
    if plan.network:
        network = PeerNetwork(
            plan.network,
            tuple((host.name, host.address) for host in plan.hosts),
            tuple((host.name, host.interface) for host in plan.hosts),
        )
    return JobTerms(
        network, plan.port_range, in_containers, own_shm=in_containers and bool(job.shm_size),
        least_files=LEAST_FILES, may_use_rdma=plan.fabric == "ib",
        image=plan.image, uses_gpus=any(host.gpus for host in plan.hosts),
        chooses_gpus=VISIBLE in job.env,
    )  # fmt: skip


def terms_from_json(data: Mapping[str, Any]) -> JobTerms:
    """From `to_json`."""
    network = data["network"]
    if network is not None:
        pairs = {name: tuple((host, value) for host, value in network[name]) for name in ("addresses", "interfaces")}
        network = PeerNetwork(**{**network, **pairs})
    first, last = data["port_range"]
    return JobTerms(**{**data, "network": network, "port_range": (first, last)})
