"""NCCL's notes: lines in the shapes of NVIDIA/nccl 2.20 to 2.27 as public logs show them, with names of our own.

Shapes: bootstrap.cc, init.cc ("NCCL version", "Using network", "Init COMPLETE"), transport/p2p.cc, shm.cc, net.cc,
net_ib.cc and net_socket.cc. Only the log of one rank is of a run of ours.
"""

from __future__ import annotations

import pytest

from ddp_play.planning.host_facts import Engine, Image
from ddp_play.planning.nccl import RENAMED, environment, misses_infiniband, parse_transport
from tests.unit.build import env, gpus, host, plan
from tests.unit.recorded_h100 import answer

ON_IB = """\
gpu1:4702:4708 [0] NCCL INFO Bootstrap: Using ib0:10.10.0.1<0>
gpu1:4702:4708 [0] NCCL INFO NCCL version 2.27.7+cuda12.9
gpu1:4702:4715 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB ib0:10.10.0.1<0>
gpu1:4702:4715 [0] NCCL INFO Using network IB
gpu1:4702:4715 [0] NCCL INFO comm 0x55f2a1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 - Init START
gpu1:4702:4715 [0] NCCL INFO Channel 00/02 :    0   1   2   3
gpu1:4702:4715 [0] NCCL INFO Channel 00/0 : 15[7] -> 0[0] [receive] via NET/IB/0/GDRDMA
gpu1:4702:4715 [0] NCCL INFO Channel 01/0 : 15[7] -> 0[0] [receive] via NET/IB/1/GDRDMA
gpu1:4702:4715 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM
gpu1:4702:4715 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM/read
gpu1:4702:4715 [0] NCCL INFO comm 0x55f2a1 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x1 - Init COMPLETE
"""
ON_SOCKETS = """\
gpu2:981:1267 [1] NCCL INFO NET/IB : No device found.
gpu2:981:1267 [1] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.2<0> [1]eth1:10.1.0.2<0>
gpu2:981:1267 [1] NCCL INFO Using network Socket
gpu2:981:1267 [1] NCCL INFO Channel 00 : 0[1b000] -> 1[43000] via SHM/direct/direct
gpu2:981:1267 [1] NCCL INFO Channel 00/0 : 1[1] -> 2[0] [send] via NET/Socket/0
gpu2:981:1267 [1] NCCL INFO comm 0x560d rank 1 nranks 4 cudaDev 1 nvmlDev 1 busId 9b000 commId 0x5 - Init COMPLETE
"""


def test_infiniband_and_nvlink() -> None:
    found = parse_transport([ON_IB])
    assert found is not None
    assert (found.version, found.network, found.devices) == (
        "2.27.7+cuda12.9",
        "IB",
        ("mlx5_0:1/IB", "mlx5_1:1/IB"),
    )
    assert found.channels == {"NET/IB/GDRDMA": 2, "P2P/CUMEM": 1, "P2P/CUMEM/read": 1}
    assert found.complete
    assert found.gpu_direct
    assert not misses_infiniband(found, num_ports=2)
    assert found.words() == (
        "NCCL 2.27.7+cuda12.9: network IB (mlx5_0:1/IB, mlx5_1:1/IB), NET/IB/GDRDMA x2, P2P/CUMEM x1, P2P/CUMEM/read x1"
    )


def test_one_rank_has_nothing_to_connect() -> None:
    found = parse_transport([answer("nccl-one-rank.log")])
    assert found is not None
    assert (found.network, found.devices, found.channels, found.complete) == ("Socket", ("lo:127.0.0.1",), {}, True)
    assert found.words() == "NCCL 2.28.9+cuda13.0: network Socket (lo:127.0.0.1), one rank"
    assert "is_alone" not in found.to_json()


def test_sockets_and_shared_memory() -> None:
    found = parse_transport([ON_SOCKETS])
    assert found is not None
    assert (found.network, found.devices) == ("Socket", ("eth0:10.0.0.2", "eth1:10.1.0.2"))
    assert found.channels == {"SHM/direct/direct": 1, "NET/Socket": 1}
    assert not found.gpu_direct
    assert misses_infiniband(found, num_ports=1)
    assert not misses_infiniband(found, num_ports=0)


def test_one_rank_on_sockets_makes_all_of_them_slow() -> None:
    both = parse_transport([ON_IB, ON_SOCKETS])
    assert both is not None
    assert (both.network, both.complete) == ("Socket", True)
    half = parse_transport([ON_IB, ON_SOCKETS.replace("Init COMPLETE", "Init START")])
    assert half is not None
    assert not half.complete


@pytest.mark.parametrize("plugin", ["IBext_v10", "NCCL RDMA Plugin v6", "AWS Libfabric"])
def test_a_plugin_is_no_socket(plugin: str) -> None:
    found = parse_transport([ON_IB.replace("Using network IB", f"Using network {plugin}")])
    assert found is not None
    assert found.network == plugin
    assert not misses_infiniband(found, num_ports=2)


@pytest.mark.parametrize("texts", [[], [""], ["epoch 1 loss 0.3\nvia P2P\n"], ["rank 0 NET/IB\n"]])
def test_nothing_of_nccl(texts: list[str]) -> None:
    assert parse_transport(texts) is None


OLD, NEW = "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE"


@pytest.mark.parametrize(
    ("torch", "set_names"),
    [
        ("", {OLD, NEW}),
        ("nightly", {OLD, NEW}),
        ("2.7.1+cu126", {OLD, NEW}),
        ("2.8.0", {NEW}),
        ("2.13.0+cpu", {NEW}),
        ("10.0", {NEW}),
        ("2.9.0a0+145a3a7", {NEW}),
    ],
)
def test_no_version_of_torch_warns_about_an_old_name_if_it_is_known(torch: str, set_names: set[str]) -> None:
    """torch 2.13 printed one warning for each rank: TORCH_NCCL_TRACE_BUFFER_SIZE is deprecated."""
    assert {name for name, _, _ in environment("/r", 0, torch)} & {OLD, NEW} == set_names


def test_every_variable_of_the_recorder_is_set_in_each_version() -> None:
    for torch in ("", "2.1", "2.8", "2.13", "2.15"):
        names = {name for name, _, _ in environment("/r", 0, torch)}
        assert [old for old, (new, _) in RENAMED.items() if not {old, new} & names] == []


def test_the_version_is_that_of_the_ranks_python_or_of_the_image() -> None:
    facts = host(gpus=gpus(1), rank_torch="2.13.0")
    assert OLD not in env(plan(facts, backend="nccl"))
    known = host(gpus=gpus(1), rank_torch="2.1.0", engine=Engine("28", image=Image("sha256:a", torch="2.13.0")))
    assert OLD not in env(plan(known, backend="nccl", image="i:1"))
    unknown = host(gpus=gpus(1), rank_torch="2.13.0", engine=Engine("28", image=Image("sha256:a")))
    assert OLD in env(plan(unknown, backend="nccl", image="i:1"))
