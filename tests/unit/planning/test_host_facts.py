"""Facts of a host: from what its program answers, and what they imply."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ddp_play.planning.host_facts import (
    Engine,
    Image,
    Interface,
    NumaNode,
    Quarantine,
    RdmaPort,
    SharedDir,
    facts_from_json,
)
from tests.unit.build import host, rdma

MARK = {"why": "mtu", "own": True, "level": "quick", "checks": ["mtu"], "num_hosts": 4}
ANSWER: dict[str, Any] = {
    "hostname": "node1",
    "machine": "m",
    "python": "/usr/bin/python3",
    "python_version": "3.11.2",
    "user": {
        "name": "root",
        "home": "/root",
        "uid": 0,
        "gid": 0,
        "groups": {"video": 44, "docker": 998},
        "login_uid": 1000,
        "login_gid": 1000,
        "login_name": "ops",
    },
    "cpus": 8,
    "memory_mib": 32000,
    "disk_free_mib": 1000,
    "nofile_hard": 4096,
    "interfaces": [{"name": "eth0", "link": "ethernet", "addresses": ["10.0.0.1/24"], "up": True, "mtu": 9000}],
    "rdma": [
        {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "rate_gbps": 400.0, "link_layer": "InfiniBand",
         "interfaces": ["ib0"]},
    ],
    "gpus": [
        {"index": 0, "uuid": "GPU-a", "model": "H100", "memory_mib": 80000, "users": ["12 python"], "numa_node": 0},
    ],
    "numa": {"nodes": [{"node": 0, "cpus": "0-7", "socket": 0, "memory": True}], "numactl": True},
    "gpu_problem": "",
    "resolves_to": ["127.0.1.1"],
    "nccl_conf": False,
    "ephemeral_ports": [32768, 60999],
    "rank_python": {"path": "/opt/py", "problem": ""},
}  # fmt: skip
ENGINE = {"version": "28.1.0", "problem": "", "image": None}
IMAGE = {"id": "sha256:a", "digests": ["d"], "entrypoint": []}


@pytest.mark.parametrize(
    ("more", "field", "value"),
    [
        ({}, "name", "h1"),
        ({}, "interfaces", (Interface("eth0", "ethernet", ("10.0.0.1/24",), mtu=9000),)),
        ({}, "rdma", (RdmaPort("mlx5_0", 1, "ACTIVE", 400.0, "InfiniBand", ("ib0",)),)),
        ({}, "ephemeral_ports", (32768, 60999)),
        ({}, "clock_offset_s", 0.0),
        ({}, "numa_nodes", (NumaNode(0, "0-7", 0, memory=True),)),
        ({}, "numactl", True),
        ({}, "engine", None),
        ({}, "shared", None),
        ({}, "slots", None),
        ({}, "state_dir", ""),
        ({"state_dir": {"path": "/s", "fstype": "xfs", "reason": ""}}, "state_dir", "/s"),
        ({"state_dir": {"path": "/s", "fstype": "xfs", "reason": "why"}}, "state_dir_reason", "why"),
        ({}, "rank_torch", ""),
        ({"rank_python": {"path": "p", "problem": "", "torch": "2.9", "mpi4py": "4"}}, "rank_torch", "2.9"),
        ({"rank_python": {"path": "p", "problem": "", "torch": "2.9", "mpi4py": "4"}}, "rank_mpi", "4"),
        ({"inventory": {"slots": 2, "interface": "ib0"}}, "slots", 2),
        ({"inventory": {"slots": 2, "interface": "ib0"}}, "interface", "ib0"),
        ({"inventory": None}, "interface", None),
        ({"engine": ENGINE}, "engine", Engine("28.1.0")),
        ({"engine": {**ENGINE, "image": IMAGE}}, "engine", Engine("28.1.0", image=Image("sha256:a", ("d",)))),
        ({"engine": {**ENGINE, "cli": False, "permission": True}}, "engine", Engine("28.1.0", "", True, False)),
        ({"shared": {"path": "/s", "exists": True, "writable": True}}, "shared", SharedDir("/s", True, True)),
        ({}, "quarantine", None),
        ({"quarantine": None}, "quarantine", None),
        ({"quarantine": MARK}, "quarantine", Quarantine("mtu", True, "quick", ("mtu",), 4)),
    ],
)
def test_facts_from_json(more: dict[str, Any], field: str, value: Any) -> None:
    assert getattr(facts_from_json("h1", {**copy.deepcopy(ANSWER), **more}), field) == value


def test_groups_are_sorted_so_that_equal_hosts_have_equal_facts() -> None:
    assert facts_from_json("h1", ANSWER).user.groups == (("docker", 998), ("video", 44))


@pytest.mark.parametrize(
    ("addresses", "networks"),
    [
        ((), ()),
        (("10.0.0.5/24",), (("10.0.0.0/24", "10.0.0.5"),)),
        (("10.0.0.5/24", "fd00::5/64"), (("10.0.0.0/24", "10.0.0.5"), ("fd00::/64", "fd00::5"))),
    ],
)
def test_networks_of_an_interface(addresses: tuple[str, ...], networks: tuple[tuple[str, str], ...]) -> None:
    assert Interface("eth0", "ethernet", addresses).networks() == networks


@pytest.mark.parametrize(
    ("ports", "devices"),
    [
        ((), []),
        ((rdma(),), ["mlx5_0"]),
        ((rdma(), rdma("mlx5_1", "DOWN")), ["mlx5_0"]),
        ((RdmaPort("mlx5_2", 1, "ACTIVE", 100.0, "Ethernet"), rdma()), ["mlx5_0"]),
    ],
)
def test_infiniband_ports_are_active_and_not_roce(ports: tuple[RdmaPort, ...], devices: list[str]) -> None:
    assert [port.device for port in host(rdma=ports).infiniband_ports] == devices


def test_an_interface_by_its_name() -> None:
    known = host("h1", "10.0.0.1/24")
    link = known.interfaces[-1]
    assert known.interface_named(link.name) == link
    assert known.interface_named("eth9") is known.interface_named("") is None
