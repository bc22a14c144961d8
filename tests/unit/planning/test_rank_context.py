"""What follows from the decisions that all ranks share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.planning.backend import BackendChoice
from ddp_play.planning.fabric import Endpoint, FabricChoice
from ddp_play.planning.host_facts import HostFacts
from ddp_play.planning.rank_context import Caller, RankContext
from ddp_play.planning.rendezvous import Rendezvous
from tests.unit.build import hosts, job, rdma

if TYPE_CHECKING:
    from collections.abc import Iterator


def context(fabric: str = "ethernet", backend: str = "gloo", **values: Any) -> RankContext:
    """Two hosts, of which the second has an RDMA port; two ranks on the first and one on the second."""
    first, second = hosts(1)[0], hosts(2, rdma=(rdma(),))[1]
    return RankContext(
        job=job(**values),
        hosts=(first, second),
        fabric=FabricChoice(
            fabric, "reason", "10.0.0.0/16", {"h1": Endpoint("eth0", "10.0.0.2"), "h2": Endpoint("eth0", "10.0.0.3")}
        ),
        backend_choice=BackendChoice(backend, "reason"),
        ranks={"h1": range(2), "h2": range(2, 3)},
        slots={"h1": ("slot-0",), "h2": ("slot-0",)},
        shared_dirs={},
        rendezvous=Rendezvous("env://", "reason"),
        caller=Caller({}),
    )


def test_what_follows_from_ranks_and_endpoints() -> None:
    made = context()
    assert (made.world_size, made.head_addr, made.backend) == (3, "10.0.0.2", "gloo")
    assert made.endpoint(made.hosts[1]).address == "10.0.0.3"


@pytest.mark.parametrize(
    ("values", "docker", "torchrun"),
    [
        ({}, False, False),
        ({"image": "i"}, True, False),
        ({"image": "i", "runtime": "process"}, False, False),
        ({"launcher": "torchrun"}, False, True),
    ],
)
def test_runtime_and_launcher(values: dict[str, Any], docker: bool, torchrun: bool) -> None:
    made = context(**values)
    assert (made.docker, made.torchrun) == (docker, torchrun)


@pytest.mark.parametrize(
    ("fabric", "backend", "uses"),
    [
        ("ethernet", "gloo", [False, False]),
        ("ib", "gloo", [False, True]),
        ("ethernet", "nccl", [False, True]),
        ("ethernet", "cpu:gloo,cuda:nccl", [False, True]),
    ],
)
def test_rdma_devices_only_where_they_are_used(fabric: str, backend: str, uses: list[bool]) -> None:
    made = context(fabric, backend)
    assert [made.uses_rdma(host) for host in made.hosts] == uses


def test_hosts_are_compared_once_and_not_for_every_rank() -> None:
    """With 1,250 hosts of 8 ranks, more than half of the time of a plan went into this."""
    reads = 0

    class Counted(tuple[HostFacts, ...]):
        __slots__ = ()

        def __iter__(self) -> Iterator[HostFacts]:
            nonlocal reads
            reads += 1
            return super().__iter__()

    made = replace(context(), hosts=Counted(hosts(2)))
    reads = 0
    assert [made.torch for _ in range(8)] == [hosts(1)[0].rank_torch] * 8
    assert reads == 0
