"""NUMA nodes of a host, read from a sysfs of files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import numa_facts

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "found"), [("", ""), ("0\n", "0"), ("0-2,4,6-7", "0-2,4,6-7"), ("3,1,2", "1-3"), ("0-0", "0")]
)
def test_lists_of_the_kernel(text: str, found: str) -> None:
    assert numa_facts.ranges(numa_facts.numbers(text)) == found


def test_numbers_are_all_in_the_list() -> None:
    assert numa_facts.numbers("0-2,4") == {0, 1, 2, 4}


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that writes two sockets of two nodes with four CPUs each; node 3 has CPUs only, node 9 memory only."""
    nodes, cpus, status = tmp_path / "node", tmp_path / "cpu", tmp_path / "status"

    def write(*, allowed: str = "0-15", mems: str = "0-3,9") -> None:
        for node, text in {0: "0-1,8-9", 1: "2-3,10-11", 2: "4-5,12-13", 3: "6-7,14-15", 9: ""}.items():
            (nodes / f"node{node}").mkdir(parents=True)
            (nodes / f"node{node}" / "cpulist").write_text(text + "\n")
        (nodes / "has_memory").write_text("0-2,9\n")
        (nodes / "power").mkdir()
        for cpu in range(16):
            (cpus / f"cpu{cpu}" / "topology").mkdir(parents=True)
            (cpus / f"cpu{cpu}" / "topology" / "physical_package_id").write_text(f"{cpu % 8 // 4}\n")
        status.write_text(f"Name:\tpython\nMems_allowed_list:\t{mems}\n")
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: numa_facts.numbers(allowed))

    monkeypatch.setattr(numa_facts, "NODES", nodes)
    monkeypatch.setattr(numa_facts, "CPUS", cpus)
    monkeypatch.setattr(numa_facts, "STATUS", status)
    return write


def row(node: int, cpus: str, socket: int, *, memory: bool = True, whole: bool = True) -> dict[str, Any]:
    return {"node": node, "cpus": cpus, "socket": socket, "memory": memory, "whole": whole}


def test_nodes_with_their_cpus_sockets_and_memory(sysfs: Any) -> None:
    sysfs()
    assert numa_facts.nodes() == [
        row(0, "0-1,8-9", 0),
        row(1, "2-3,10-11", 0),
        row(2, "4-5,12-13", 1),
        row(3, "6-7,14-15", 1, memory=False),
    ]


def test_what_this_process_may_not_use_is_left_out(sysfs: Any) -> None:
    """A node without usable CPUs stays: the message about its GPU names it."""
    sysfs(allowed="1-5", mems="1")
    assert numa_facts.nodes() == [
        row(0, "1", 0, memory=False, whole=False),
        row(1, "2-3", 0, whole=False),
        row(2, "4-5", 1, memory=False, whole=False),
        row(3, "", 1, memory=False, whole=False),
    ]


def test_without_sysfs_there_are_none(sysfs: Any) -> None:
    assert numa_facts.nodes() == []
    sysfs()
    (numa_facts.NODES / "has_memory").unlink()
    assert numa_facts.nodes() == []


def test_of_this_machine() -> None:
    """The real sysfs: together the nodes have the CPUs of this process."""
    found = [numa_facts.numbers(item["cpus"]) for item in numa_facts.nodes()]
    if found:
        assert frozenset().union(*found) == os.sched_getaffinity(0)


@pytest.mark.parametrize(
    ("address", "node"),
    [
        ("00000000:18:00.0", 1),
        ("00010000:2A:00.0", 0),
        ("0000:18:00.0", 1),
        ("00000000:FF:00.0", -1),
        ("[N/A]", -1),
        ("", -1),
    ],
)
def test_the_node_of_a_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str, node: int) -> None:
    monkeypatch.setattr(numa_facts, "PCI", tmp_path)
    for name, text in (("0000:18:00.0", "1\n"), ("10000:2a:00.0", "0\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "numa_node").write_text(text)
    assert numa_facts.node_of_pci(address) == node
