"""Which commands bring up InfiniBand interfaces: the named ones and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.ddp.play.plugins.filter import rdma

ROLE = Path(__file__).parents[3] / "roles" / "rdma"
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


@pytest.mark.parametrize("system", ["Debian", "Ubuntu", "RedHat"])
def test_no_system_brings_up_every_interface(system: str) -> None:
    names = yaml.safe_load((ROLE / "vars" / f"{system}.yml").read_text())
    assert "__rdma_ipoib_apply" not in names
    for words in rdma.apply_commands([IB0], names["__rdma_ipoib_manager"], names["__rdma_ipoib_file"]):
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
