"""NUMA binding of ranks in the plan: which, why, how it is handed on, and when it is refused."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from ddp_play.errors import DdpPlayError, HostNotReady, UsageError
from ddp_play.planning.host_facts import HostFacts, NumaNode
from ddp_play.planning.numa import NumaBinding, threads_per_rank
from ddp_play.planning.plan_document import HostPlan, plan_from_json
from tests.unit.build import engine, env, gpus, host, numa_host, plan

NODE_0, NODE_1 = NumaBinding(0, "0-1,8-9", "0"), NumaBinding(1, "2-3,10-11", "1")
SOCKET_0, SOCKET_1 = NumaBinding(0, "0-1,8-9,2-3,10-11", "0,1"), NumaBinding(2, "4-5,12-13,6-7,14-15", "2")
ONE_NODE = (NumaNode(0, "0-7", 0, memory=True),)
IMAGE: dict[str, Any] = {"image": "i"}
OTHER_MODEL = dataclasses.replace(numa_host().gpus[3], model="NVIDIA A100-SXM4-80GB")
PART = NumaNode(0, "1,9", 0, memory=True, whole=False)
FOUR_NODES = tuple(NumaBinding(row.node, row.cpus, "") for row in numa_host().numa_nodes)


def planned(facts: HostFacts, **values: Any) -> HostPlan:
    return plan(facts, **values).hosts[0]


@pytest.mark.parametrize(
    ("on", "numa", "mode", "bindings"),
    [
        ((0, 0, 1, 1), "node", "node", (NODE_0, NODE_0, NODE_1, NODE_1)),
        ((0, 2), "auto", "socket", tuple(dataclasses.replace(row, memory_nodes="") for row in (SOCKET_0, SOCKET_1))),
        ((0, 1, 2, 3), "auto", "node", FOUR_NODES),
        ((0, 1), "node", "node", (NODE_0, NODE_1)),
        ((1, 0), "node", "node", (NODE_1, NODE_0)),
        ((0, 2), "socket", "socket", (SOCKET_0, SOCKET_1)),
        ((1,), "socket", "socket", (dataclasses.replace(SOCKET_0, node=1),)),
        ((3,), "node", "node", (NumaBinding(3, "6-7,14-15", ""),)),
        ((0, 1), "none", "none", ()),
    ],
)
def test_each_rank_has_the_node_or_the_socket_of_its_gpu(
    on: tuple[int, ...], numa: str, mode: str, bindings: tuple[NumaBinding, ...]
) -> None:
    made = planned(numa_host(on=on), numa=numa)
    assert (made.numa_mode, made.numa) == (mode, bindings)


@pytest.mark.parametrize(
    ("facts", "values"),
    [
        (numa_host(on=(0, -1)), {}),
        (numa_host(on=(0, 7)), {}),
        (numa_host(numa_nodes=ONE_NODE), {}),
        (numa_host(numa_nodes=()), {}),
        (numa_host(gpus=()), {}),
        (numa_host(on=(0, 2)), {"gpus": "none"}),
        (numa_host(on=(0, 1, 2, 3)), {"ranks_per_host": 1}),  # would leave three of four nodes unused
        (numa_host(on=(0, 1)), {}),
        (numa_host(gpus=(*numa_host(on=(0, 1, 2)).gpus, dataclasses.replace(OTHER_MODEL, numa_node=3))), {}),
        (numa_host(on=(0, 1, 2, 3), numa_nodes=(PART, *numa_host().numa_nodes[1:])), {}),
        (numa_host(on=(0, 1)), {"ranks_per_host": 4, "backend": "gloo"}),
        (numa_host(), {"env": {"CUDA_VISIBLE_DEVICES": "3,2,1,0"}}),
        (numa_host(numa_nodes=(NumaNode(0, "", 0, memory=True), *numa_host().numa_nodes[1:])), {}),
        (host(), {}),
    ],
)
def test_auto_binds_nothing_where_it_is_not_certain(facts: HostFacts, values: dict[str, Any]) -> None:
    made = planned(facts, **values)
    assert (made.numa_mode, made.numa) == ("none", ())
    assert "cpuset" not in json.dumps(plan(dataclasses.replace(facts, engine=engine()), **IMAGE, **values).to_json())


def test_each_host_is_decided_by_itself() -> None:
    made = plan(numa_host("a", on=(0, 2)), host("b", "10.0.0.2/24", gpus=gpus(4)))
    assert [item.numa_mode for item in made.hosts] == ["socket", "none"]
    assert plan_from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    ("facts", "values", "error", "words"),
    [
        (numa_host(), {"gpus": "none"}, UsageError, "ddp_job_numa is node and ddp_job_gpus is none"),
        (numa_host(), {"env": {"CUDA_VISIBLE_DEVICES": "1"}}, UsageError, "ddp_job_env sets CUDA_VISIBLE_DEVICES"),
        (host(), {}, HostNotReady, r"h1: ddp_job_numa is node, and 1 rank\(s\) have 0 GPU\(s\)"),
        (
            numa_host(on=(0, -1)),
            {},
            HostNotReady,
            "h1: ddp_job_numa is node, and the kernel does not tell the NUMA node of GPU 1",
        ),
        (numa_host(on=(0, 7)), {}, HostNotReady, "no CPU of NUMA node 7, where GPU 1 is, may be used"),
        (numa_host(), {"numa": "both"}, UsageError, "ddp_job_numa: input should be 'auto', 'none', 'node' or 'socket'"),
    ],
)
def test_what_cannot_be_done_is_refused(
    facts: HostFacts, values: dict[str, Any], error: type[DdpPlayError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        plan(facts, **{"numa": "node", **values})
    assert caught.value.hint


@pytest.mark.parametrize("told", [0, -1])
def test_a_host_with_one_node_needs_no_node_from_the_kernel(told: int) -> None:
    """As torch does; it is the node of everything."""
    made = planned(numa_host(on=(told,), numa_nodes=ONE_NODE), numa="node")
    assert made.numa == (NumaBinding(0, "0-7", "0"),)


# -- what is made of it --------------------------------------------------------------------------------


def test_containers_are_created_with_it() -> None:
    made = planned(numa_host(engine=engine()), **IMAGE, numa="node")
    words = [" ".join(made.rank(rank).create) for rank in made.ranks]
    assert ["--cpuset-cpus 0-1,8-9 --cpuset-mems 0 " in text for text in words] == [True, True, False, False]
    assert ["--cpuset-cpus 2-3,10-11 --cpuset-mems 1 " in text for text in words] == [False, False, True, True]


@pytest.mark.parametrize(("rank", "numa"), [(1, "node"), (1, "auto"), (0, "auto")])
def test_memory_is_not_bound_where_a_node_has_none_and_not_by_auto(rank: int, numa: str) -> None:
    """Bound memory is a limit: nobody is to run into one that was not asked for."""
    made = planned(numa_host(on=(0, 3), engine=engine()), **IMAGE, numa=numa)
    words = " ".join(made.rank(rank).create)
    assert "--cpuset-cpus" in words
    assert "--cpuset-mems" not in words


@pytest.mark.parametrize(
    ("bindings", "threads"),
    [
        ((NODE_0, NODE_0, NODE_1, NODE_1), 2),
        ((NODE_0, NODE_0, NODE_0, NODE_1), 1),
        ((NODE_0,) * 5, 1),
        ((SOCKET_0, SOCKET_0), 4),
        ((NumaBinding(0, "3", "0"),), 1),
    ],
)
def test_threads_are_the_smallest_share_of_the_cpus(bindings: tuple[NumaBinding, ...], threads: int) -> None:
    assert threads_per_rank(bindings) == threads


def test_threads_of_the_ranks() -> None:
    assert env(plan(numa_host(on=(0, 0)), numa="node"))["OMP_NUM_THREADS"] == "2"
    assert env(plan(numa_host(on=(0, 0)), numa="none"))["OMP_NUM_THREADS"] == "8"
    assert env(plan(numa_host(on=(0, 0)), cpus=3))["OMP_NUM_THREADS"] == "3"


# -- torchrun ------------------------------------------------------------------------------------------

TORCHRUN: dict[str, Any] = {"launcher": "torchrun"}


def option(facts: HostFacts, **values: Any) -> str:
    """Value of torchrun's --numa-binding; empty without."""
    made = planned(facts, **TORCHRUN, **values)
    assert made.agent is not None
    assert "cpuset" not in " ".join(made.agent.create)
    words = made.agent.argv
    return words[words.index("--numa-binding") + 1] if "--numa-binding" in words else ""


def with_image(torch: str) -> HostFacts:
    made = engine()
    assert made.image is not None
    return numa_host(on=(0, 2), engine=dataclasses.replace(made, image=dataclasses.replace(made.image, torch=torch)))


@pytest.mark.parametrize(
    ("facts", "values", "expected"),
    [
        (numa_host(on=(0, 2), rank_torch="2.13.0+cpu"), {}, "socket"),
        (numa_host(rank_torch="2.9.0"), {"numa": "socket"}, "socket"),
        (numa_host(on=(0, 2), rank_torch="2.8.1"), {}, ""),
        (numa_host(on=(0, 2), rank_torch=""), {}, ""),
        (numa_host(rank_torch=""), {"numa": "node"}, "node"),
        (numa_host(on=(0, 2), rank_torch="2.13.0", numactl=False), {}, ""),
        (numa_host(rank_torch="2.13.0"), {"numa": "none"}, ""),
        (with_image("2.13.0"), IMAGE, ""),  # whether the image has numactl is not known
        (with_image("2.13.0"), {**IMAGE, "numa": "node"}, "node"),
        (with_image(""), {**IMAGE, "numa": "socket"}, "socket"),
        (host(rank_torch="2.13.0"), {}, ""),
    ],
)
def test_torchrun_binds_its_ranks_itself(facts: HostFacts, values: dict[str, Any], expected: str) -> None:
    assert option(facts, **values) == expected
    made = planned(facts, **TORCHRUN, **values)
    assert made.numa_mode == (expected or "none")
    assert not any(binding.memory_nodes for binding in made.numa), "torch binds CPUs only"


@pytest.mark.parametrize(
    ("facts", "values", "error", "words"),
    [
        (numa_host(rank_torch="2.8.1"), {}, UsageError, "torchrun of torch 2.8.1 has no --numa-binding"),
        (with_image("2.8.0"), IMAGE, UsageError, "torchrun of torch 2.8.0 has no --numa-binding"),
        (numa_host(numactl=False), {}, HostNotReady, "h1: .*torchrun binds with numactl, which is not installed"),
    ],
)
def test_a_torchrun_that_cannot_bind_is_refused(
    facts: HostFacts, values: dict[str, Any], error: type[DdpPlayError], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        plan(facts, numa="node", **TORCHRUN, **values)
    assert "ddp_job_launcher to ranks" in caught.value.hint
