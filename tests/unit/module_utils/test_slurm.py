"""Parsers of what a host knows for Slurm."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import slurm

HARDWARE = "NodeName=n1 CPUs=64 Boards=1 SocketsPerBoard=2 CoresPerSocket=32 ThreadsPerCore=1 RealMemory=515000"


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        (f"{HARDWARE}\nUpTime=0-00:12:45\n", ["CPUs", "Boards", "SocketsPerBoard", "CoresPerSocket"]),
        (
            f"slurmd: warning of a plugin\n{HARDWARE} UpTime=1\n",
            ["CPUs", "Boards", "SocketsPerBoard", "CoresPerSocket"],
        ),
        ("", []),
        ("slurmd: not found", []),
    ],
)
def test_hardware_has_neither_name_nor_uptime(text: str, keys: list[str]) -> None:
    found = slurm.parse_hardware(text)
    assert list(found)[:4] == keys
    assert found.get("RealMemory", "") == ("515000" if keys else "")
    assert not {"NodeName", "UpTime"} & set(found)


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("NVIDIA GeForce RTX 4090", "4090"),
        ("NVIDIA", ""),
        ("", ""),
    ],
)
def test_type_of_a_gpu(model: str, kind: str) -> None:
    assert slurm.gpu_type(model) == kind


def test_gpus_are_in_the_order_of_their_device_files() -> None:
    text = "Model: \t\t NVIDIA H100\nIRQ:   12\nDevice Minor: \t %d\n"
    found = slurm.gpus([text % 1, text % 0, "Model: NVIDIA H100\n"])
    assert found == [{"type": "h100", "minor": 0}, {"type": "h100", "minor": 1}]


@pytest.mark.parametrize(
    ("v2", "v1", "container", "expected"),
    [
        ("cpuset cpu io memory pids", [], False, True),
        ("cpuset cpu io memory pids", [], True, False),
        ("cpu", [], False, False),
        ("", ["freezer", "cpuset", "memory", "devices", "cpu"], False, True),
        ("", ["freezer"], False, False),
        ("", [], False, False),
    ],
)
def test_control_groups_that_slurm_can_use(v2: str, v1: list[str], container: bool, expected: bool) -> None:
    assert slurm.controls_processes(v2, v1, container) is expected


@pytest.mark.parametrize(
    ("version", "release"),
    [("22.05.8-4+deb12u3", "22.05"), ("1:25.11.2-1ubuntu2", "25.11"), ("(none)", ""), ("", "")],
)
def test_release(version: str, release: str) -> None:
    assert slurm.upstream(version) == release


@pytest.mark.parametrize(("address", "expected"), [("127.0.1.1", True), ("::1", True), ("10.1.0.5", False)])
def test_loopback(address: str, expected: Any) -> None:
    assert slurm.is_loopback(address) is expected


def test_addresses_are_named_once() -> None:
    text = "10.1.0.5  STREAM n1\n10.1.0.5  DGRAM\n2001:db8::5  STREAM\n\n"
    assert slurm.parse_addresses(text) == ["10.1.0.5", "2001:db8::5"]
    assert slurm.parse_addresses("") == []
