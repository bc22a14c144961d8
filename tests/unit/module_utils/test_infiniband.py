"""Ports, ACS and the verdict on RDMA; samples from the kernel's sysfs-class-infiniband documentation."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import infiniband

ACTIVE = {
    "state": "4: ACTIVE",
    "phys_state": "5: LinkUp",
    "link_layer": "InfiniBand",
    "rate": "400 Gb/sec (4X NDR)",
    "lid": "0x12",
}


def test_parse_port() -> None:
    assert infiniband.parse_port(ACTIVE) == {
        "state": "ACTIVE",
        "phys_state": "LinkUp",
        "link_layer": "InfiniBand",
        "rate_gbps": 400.0,
        "lid": 18,
    }


def test_parse_port_of_nothing() -> None:
    assert infiniband.parse_port({})["state"] == ""


def config(*capabilities: tuple[int, int]) -> bytes:
    """Configuration space with extended capabilities (id, control register), chained from 0x100."""
    space = bytearray(4096)
    for index, (capability, control) in enumerate(capabilities):
        offset = 0x100 + index * 0x20
        following = offset + 0x20 if index + 1 < len(capabilities) else 0
        struct.pack_into("<I", space, offset, capability | 1 << 16 | following << 20)
        struct.pack_into("<H", space, offset + 6, control)
    return bytes(space)


@pytest.mark.parametrize(
    ("space", "control"),
    [
        (None, None),
        (b"\0" * 64, None),  # what an unprivileged reader gets
        (config((0x0001, 0)), None),
        (config((0x000D, 0)), 0),
        (config((0x0001, 0), (0x000D, 0x1D)), 0x1D),
    ],
)
def test_acs_control(space: bytes | None, control: int | None) -> None:
    assert infiniband.acs_control(space) == control


def test_acs_control_ends_on_a_loop() -> None:
    space = bytearray(config((0x0001, 0)))
    struct.pack_into("<I", space, 0x100, 0x0001 | 0x100 << 20)
    assert infiniband.acs_control(bytes(space)) is None


def facts(**port: str) -> dict[str, Any]:
    return {
        "hcas": ["0000:a0:00.0"],
        "devices": [{"name": "mlx5_0", "ports": {"1": infiniband.parse_port(ACTIVE | port)}}],
        "addresses": {"ib0": ["10.1.0.11/16"]},
    }


EXPECT = {"hcas": 1, "rate_gbps": 400, "addresses": {"ib0": "10.1.0.11/16"}}


def test_a_good_host_has_no_problem() -> None:
    assert infiniband.problems(facts(), EXPECT) == []


@pytest.mark.parametrize(
    ("port", "expect", "problem"),
    [
        ({"state": "2: INIT"}, {}, "mlx5_0 port 1 is INIT, LinkUp (no subnet manager answers)"),
        (
            {"state": "1: DOWN", "phys_state": "2: Polling"},
            {},
            "no port of mlx5_0 is active: mlx5_0 port 1 is DOWN, Polling",
        ),
        ({"rate": "100 Gb/sec (4X EDR)"}, {}, "mlx5_0 port 1 runs at 100 Gb/s, wanted 400"),
        ({}, {"hcas": 8}, "1 RDMA devices in sysfs, the inventory expects 8"),
        ({}, {"addresses": {"ib1": "10.1.0.1/16"}}, "ib1 has no address, wanted 10.1.0.1/16"),
    ],
)
def test_each_fault_is_named(port: dict[str, str], expect: dict[str, Any], problem: str) -> None:
    assert infiniband.problems(facts(**port), EXPECT | expect) == [problem]


def two_ports(**second: str) -> dict[str, Any]:
    """A card with two ports, of which only the first has a cable: each port is a device of its own."""
    host = facts()
    without_cable = ACTIVE | {"state": "1: DOWN", "phys_state": "3: Disabled"} | second
    host["devices"].append({"name": "mlx5_1", "ports": {"1": infiniband.parse_port(without_cable)}})
    return host


@pytest.mark.parametrize("phys_state", ["3: Disabled", "2: Polling"])
def test_a_port_without_a_cable_is_no_problem_by_default(phys_state: str) -> None:
    assert infiniband.problems(two_ports(phys_state=phys_state), EXPECT | {"hcas": 2}) == []


@pytest.mark.parametrize(
    ("second", "expect", "problems"),
    [
        ({}, {"active_ports": 1}, []),
        (
            {},
            {"active_ports": 2},
            ["1 RDMA ports are active, the inventory expects 2: mlx5_1 port 1 is DOWN, Disabled"],
        ),
        (
            {"state": "2: INIT", "phys_state": "5: LinkUp"},
            {},
            ["mlx5_1 port 1 is INIT, LinkUp (no subnet manager answers)"],
        ),
        ({"state": "4: ACTIVE", "rate": "25 Gb/sec (1X EDR)"}, {}, ["mlx5_1 port 1 runs at 25 Gb/s, wanted 400"]),
        ({"state": "4: ACTIVE", "rate": "25 Gb/sec (1X EDR)"}, {"devices": ["mlx5_0"], "hcas": 1}, []),
        ({}, {"devices": ["mlx5_1"], "hcas": 1}, ["no port of mlx5_1 is active: mlx5_1 port 1 is DOWN, Disabled"]),
        ({}, {"devices": ["ibp*"], "hcas": 0}, ["no RDMA device matches ibp*: the host has mlx5_0, mlx5_1"]),
    ],
)
def test_ports_are_judged_by_expectation_and_filter(
    second: dict[str, str], expect: dict[str, Any], problems: list[str]
) -> None:
    assert infiniband.problems(two_ports(**second), EXPECT | {"hcas": 2} | expect) == problems
