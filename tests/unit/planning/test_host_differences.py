"""What hosts must have in common: torch, InfiniBand ports; and what is only a warning: MTU, rates."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from ddp_play.errors import HostNotReady
from ddp_play.planning.host_differences import (
    check_infiniband,
    check_torch,
    differences,
    moved_state,
    one_line,
    table,
)
from tests.unit.build import LOOPBACK, env, ethernet, host, hosts, ib_host, infiniband, plan, rdma, shared

NO_IPOIB = tuple(host(f"h{n}", f"10.0.0.{n}/24", rdma=(rdma(),)) for n in (1, 2))


def with_torch(*versions: str) -> Any:
    return tuple(
        dataclasses.replace(item, rank_torch=version)
        for item, version in zip(hosts(len(versions)), versions, strict=True)
    )


def test_different_torches_are_refused_with_a_table() -> None:
    with pytest.raises(HostNotReady) as caught:
        plan(*with_torch("2.13.0+cpu", "2.13.0+cpu", "2.12.1"))
    assert caught.value.message.splitlines() == [
        "the hosts do not have the same torch:",
        "  h1: 2.13.0+cpu",
        "  h2: 2.13.0+cpu",
        "  h3: 2.12.1",
    ]
    assert "ddp_python" in caught.value.hint


def test_a_host_without_torch_is_a_warning() -> None:
    """The job may bring its own on PYTHONPATH, or need none."""
    assert plan(*with_torch("2.13.0", "")).warnings == ("the ranks' Python has torch on h1 and not on h2",)
    assert plan(*with_torch("", "")).warnings == ()
    assert plan(*with_torch("2.13.0", "2.13.0")).warnings == ()


def test_state_that_is_not_where_it_usually_is_is_one_warning() -> None:
    why = "/home/kim/.local/state/ddp-play/host is on nfs4 (nfs1:/home), which is not local"
    moved = tuple(
        dataclasses.replace(item, state_dir="/var/tmp/ddp-play-1000", state_dir_reason=why) for item in hosts(6)
    )
    assert plan(*moved).warnings == (
        f"the state of runs is in /var/tmp/ddp-play-1000 on h1, h2, h3, h4 and 2 more: {why}; "
        "set ddp_state_dir to choose a directory",
    )
    assert plan(*(dataclasses.replace(item, state_dir="/var/lib/ddp-play") for item in hosts(2))).warnings == ()


def test_unequal_numbers_of_infiniband_ports_are_refused_with_a_table() -> None:
    two = (rdma(), rdma("mlx5_1"))
    facts = (ib_host("g1", 1, rdma=two), ib_host("g2", 2), ib_host("g3", 3, rdma=(rdma(state="DOWN"),)))
    with pytest.raises(HostNotReady) as caught:
        plan(*facts)
    assert caught.value.message.splitlines() == [
        "the hosts do not have the same number of active InfiniBand ports:",
        "  g1: mlx5_0:1, mlx5_1:1",
        "  g2: mlx5_0:1",
        "  g3: none",
    ]
    assert plan(*facts, backend="gloo", gpus="none").backend == "gloo"
    assert env(plan(*facts, env={"NCCL_IB_HCA": "=mlx5_0:1"}))["NCCL_IB_HCA"] == "=mlx5_0:1"


def test_infiniband_requested_may_not_become_sockets() -> None:
    facts = tuple(ib_host(f"g{n}", n, rdma=()) for n in (1, 2))
    with pytest.raises(HostNotReady, match="no host has an active InfiniBand port"):
        plan(*facts, fabric="ib")
    assert "NCCL_IB_HCA" not in env(plan(*facts))
    good = tuple(ib_host(f"g{n}", n) for n in (1, 2))
    assert env(plan(*good, fabric="ib"))["NCCL_NET"] == "IB"
    assert "NCCL_NET" not in env(plan(*good))


def test_the_rule_for_infiniband_without_address() -> None:
    assert plan(*NO_IPOIB).backend_reason.startswith("CPU + InfiniBand without IPoIB -> gloo over ethernet")
    ready = tuple(dataclasses.replace(item, rank_mpi="4.1.2") for item in NO_IPOIB)
    assert plan(*ready).backend == "mpi"
    asked: tuple[dict[str, Any], ...] = ({"fabric": "ethernet"}, {"network": "10.0.0.0/24"})
    for values in asked:
        assert plan(*ready, **values).backend_reason == "CPU + ethernet -> gloo"
    assert plan(*ready, launcher="torchrun").backend == "gloo"


def test_different_mtus_and_rates_are_warned_of() -> None:
    facts = tuple(
        host(f"h{n}", interfaces=(LOOPBACK, ethernet(f"10.0.0.{n}/24", mtu=mtu))) for n, mtu in ((1, 9000), (2, 1500))
    )
    assert plan(*facts).warnings == ("the MTU differs between hosts: 1500 on h2; 9000 on h1",)
    slow = dataclasses.replace(rdma(), rate_gbps=100.0)
    made = plan(ib_host("g1", 1), ib_host("g2", 2, rdma=(slow,)))
    assert made.warnings == ("the InfiniBand rate differs between hosts: 100 Gb/s on g2; 400 Gb/s on g1",)


def test_several_nics_reach_gloo_and_nccl() -> None:
    facts = tuple(
        ib_host(
            f"g{n}",
            n,
            interface="ib",
            rdma=(rdma(), rdma("mlx5_1")),
            interfaces=(LOOPBACK, infiniband(f"10.1.0.{n}/24"), infiniband(f"10.2.0.{n}/24", name="ib1")),
        )
        for n in (1, 2)
    )
    got = env(plan(*facts))
    assert (got["GLOO_SOCKET_IFNAME"], got["NCCL_SOCKET_IFNAME"]) == ("ib0,ib1", "=ib0,ib1")
    assert got["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"
    assert got["TP_SOCKET_IFNAME"] == "ib0"


@pytest.mark.parametrize("launcher", ["ranks", "torchrun"])
@pytest.mark.parametrize("values", [{}, {"init_method": "tcp"}, {"init_method": "file"}])
def test_nccl_goes_with_every_rendezvous(launcher: str, values: dict[str, Any]) -> None:
    """Plan and environment only: no test machine has a GPU."""
    made = plan(*(ib_host(f"g{n}", n, shared=shared()) for n in (1, 2)), launcher=launcher, **values)
    got = env(made, 8)
    assert made.backend == "nccl"
    assert (got["NCCL_SOCKET_IFNAME"], got["NCCL_IB_HCA"], got["LOCAL_RANK"]) == ("=ib0", "=mlx5_0:1", "0")
    assert made.world_size == 16


def test_long_tables_end() -> None:
    assert table({f"h{n:02}": "x" for n in range(30)}).splitlines()[-1] == "  and 10 more"
    assert one_line({"a": "1", "b": "1"}) == "1 on a, b"
    assert table({f"h{n:02}": "x" for n in range(20)}).splitlines()[-1] == "  h19: x"
    assert table({f"h{n:02}": "x" for n in range(21)}).splitlines()[-2:] == ["  h19: x", "  and 1 more"]
    assert one_line(dict.fromkeys("abcd", "1")) == "1 on a, b, c, d"
    assert one_line(dict.fromkeys("abcde", "1")) == "1 on a, b, c, d and 1 more"


def chosen(fabric: str, **interfaces: str) -> Any:
    """A choice of the fabric with the interface of each host."""
    endpoints = {name: SimpleNamespace(interface=interface) for name, interface in interfaces.items()}
    return SimpleNamespace(fabric=fabric, endpoints=endpoints)


@pytest.mark.parametrize(
    ("backend", "fabric", "values", "counts", "refused"),
    [
        ("nccl", "ib", {}, (1, 2), "same number"),
        ("nccl", "ib", {}, (1, 0), "same number"),
        ("nccl", "ib", {}, (0, 1, 2), "same number"),
        ("cpu:gloo,cuda:nccl", "ib", {}, (1, 2), "same number"),
        ("nccl", "ib", {"env": {"NCCL_IB_HCA": "mlx5"}}, (1, 2), ""),
        ("nccl", "ethernet", {}, (1, 2), ""),
        ("gloo", "ib", {}, (1, 2), ""),
        ("nccl", "ib", {}, (1, 1), ""),
        ("nccl", "ib", {"fabric": "ib"}, (1, 1), ""),
        ("nccl", "ib", {"fabric": "ib"}, (0, 0), "no host has"),
        ("nccl", "ib", {"fabric": "ib"}, (2, 2), ""),
        ("nccl", "ib", {"fabric": "auto"}, (0, 0), ""),
    ],
)
def test_which_infiniband_ports_are_refused(
    backend: str, fabric: str, values: dict[str, Any], counts: tuple[int, ...], refused: str
) -> None:
    job: Any = SimpleNamespace(**{"env": {}, "fabric": "auto", **values})
    facts = tuple(
        ib_host(f"g{n}", n, rdma=tuple(rdma(f"mlx5_{port}") for port in range(count))) for n, count in enumerate(counts)
    )
    if refused:
        with pytest.raises(HostNotReady, match=refused):
            check_infiniband(job, facts, backend=backend, fabric=fabric)
    else:
        check_infiniband(job, facts, backend=backend, fabric=fabric)


@pytest.mark.parametrize(
    ("versions", "refused"),
    [((), False), (("",), False), (("1", "1"), False), (("1", ""), False), (("1", "2"), True), (("", "1", "2"), True)],
)
def test_which_torches_are_refused(versions: tuple[str, ...], refused: bool) -> None:
    facts = with_torch(*versions)
    if refused:
        with pytest.raises(HostNotReady, match="same torch"):
            check_torch(facts)
    else:
        check_torch(facts)


@pytest.mark.parametrize(
    ("mtus", "interface", "expected"),
    [
        ((1500, 1500), "eth0", []),
        ((1500, 9000), "eth0", ["the MTU differs between hosts: 1500 on h1; 9000 on h2"]),
        ((1500, 9000), "eth9", []),  # the ranks use another network
    ],
)
def test_only_the_mtu_of_the_chosen_interface_counts(
    mtus: tuple[int, int], interface: str, expected: list[str]
) -> None:
    facts = tuple(
        host(f"h{n}", interfaces=(ethernet(f"10.0.0.{n}/24", mtu=mtu), LOOPBACK)) for n, mtu in enumerate(mtus, 1)
    )
    name = facts[0].interfaces[0].name if interface == "eth0" else interface
    assert differences(facts, chosen("ethernet", h1=name, h2=name)) == expected


def test_an_interface_that_a_host_lacks_has_mtu_0() -> None:
    facts = hosts(2)
    name = facts[0].interfaces[-1].name
    (warning,) = differences(facts, chosen("ethernet", h1=name, h2="gone"))
    assert warning.startswith("the MTU differs between hosts: 0 on h2; ")


@pytest.mark.parametrize(
    ("fabric", "rates", "warned"),
    [
        ("ib", ((400.0,), (100.0,)), True),
        ("ethernet", ((400.0,), (100.0,)), False),
        ("ib", ((400.0, 100.0), (400.0,)), False),  # the fastest port of each
        ("ib", ((400.0,), ()), False),
    ],
)
def test_rates_matter_where_infiniband_is_the_fabric(
    fabric: str, rates: tuple[tuple[float, ...], ...], warned: bool
) -> None:
    facts = tuple(
        ib_host(f"h{n}", n, rdma=tuple(dataclasses.replace(rdma(f"m{i}"), rate_gbps=r) for i, r in enumerate(rows)))
        for n, rows in enumerate(rates, 1)
    )
    found = differences(facts, chosen(fabric, h1="ib0", h2="ib0"))
    assert found == (["the InfiniBand rate differs between hosts: 100 Gb/s on h2; 400 Gb/s on h1"] if warned else [])


def test_only_moved_state_is_named() -> None:
    facts = tuple(dataclasses.replace(item, state_dir=f"/s/{item.name}") for item in hosts(3))
    assert moved_state(facts) == []
    moved = (facts[0], *(dataclasses.replace(item, state_dir_reason=f"why {item.name}") for item in facts[1:]))
    assert moved_state(moved) == [
        "the state of runs is in /s/h2 on h2; /s/h3 on h3: why h2; set ddp_state_dir to choose a directory"
    ]
