"""Which commands bring up InfiniBand interfaces: the named ones and no other; pending changes and problems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.ddp.play.plugins.filter import rdma

ROLE = Path(__file__).parents[3] / "roles" / "rdma"
SYSTEMS: dict[str, Any] = yaml.safe_load((ROLE / "vars/main.yml").read_text())["__rdma_platforms"]
IB0 = {"interface": "ib0", "address": "10.1.0.11/16"}
IB1 = {"interface": "ib1", "address": "10.2.0.11/16", "mtu": 65520, "mode": "connected"}


@pytest.mark.parametrize(
    ("links", "manager", "commands"),
    [
        ([], "ifupdown", []),
        ([], "netplan", []),
        ([], "nmstate", []),
        ([IB0], "ifupdown", ["ifdown --force ib0", "ifup --force ib0"]),
        ([IB0, IB1], "ifupdown", ["ifdown --force ib0 ib1", "ifup --force ib0 ib1"]),
        ([IB0], "nmstate", ["nmstatectl apply /etc/x"]),
        (
            [IB0, IB1],
            "netplan",
            [
                "netplan get",
                "ip link set dev ib0 mtu 2044 up",
                "ip address replace 10.1.0.11/16 dev ib0",
                "ip link set dev ib1 type ipoib mode connected",
                "ip link set dev ib1 mtu 65520 up",
                "ip address replace 10.2.0.11/16 dev ib1",
            ],
        ),
    ],
)
def test_commands(links: list[dict[str, Any]], manager: str, commands: list[str]) -> None:
    assert [" ".join(words) for words in rdma.apply_commands(links, manager, "/etc/x")] == commands


@pytest.mark.parametrize("system", SYSTEMS)
def test_no_system_brings_up_every_interface(system: str) -> None:
    platform = SYSTEMS[system]
    for words in rdma.apply_commands([IB0], platform["ipoib_manager"], platform["ipoib_file"]):
        assert not {"--all", "-a"} & set(words)
        assert words not in (["netplan", "apply"], ["networkctl", "reload"])


@pytest.mark.parametrize(
    ("missing", "links", "is_stale", "found"),
    [
        ([], [], False, []),
        ([], [], True, []),
        ([], [IB0], False, []),
        (["rdma-core", "perftest"], [IB0, IB1], True, ["install perftest, rdma-core", "bring up ib0, ib1"]),
    ],
)
def test_changes(missing: list[str], links: list[dict[str, Any]], is_stale: bool, found: list[str]) -> None:
    assert rdma.changes(missing, links, is_stale) == found


@pytest.mark.parametrize(
    ("expect", "missing", "drifted", "problems"),
    [
        ({}, [], [], []),
        ({"hcas": 2}, [], [], ["1 RDMA devices in sysfs, the inventory expects 2"]),
        ({}, ["perftest"], ["/etc/a"], ["package perftest is not installed", "/etc/a is not as provisioned"]),
    ],
)
def test_problems(expect: dict[str, Any], missing: list[str], drifted: list[str], problems: list[str]) -> None:
    port = {"state": "ACTIVE", "phys_state": "LinkUp", "rate_gbps": 400.0}
    facts = {"hcas": ["0000:a0:00.0"], "devices": [{"name": "mlx5_0", "ports": {"1": port}}], "addresses": {}}
    assert rdma.problems(facts, expect, missing, drifted) == problems
