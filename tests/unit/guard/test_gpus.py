"""GPUs of a host: sysfs, nvidia-smi, and the two not agreeing."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import gpus, numa_facts
from tests.unit.recorded_h100 import GPU, answer

if TYPE_CHECKING:
    from pathlib import Path

TWO = """0, GPU-aaaa, NVIDIA H100 80GB HBM3, 81559, 00000000:18:00.0, 570.86.15
1, GPU-bbbb, NVIDIA H100 80GB HBM3, 81559, 00000000:2A:00.0, 570.86.15
"""
USERS = "GPU-bbbb, 4711, python\nGPU-bbbb, 4712, /usr/bin/python3\n"


@pytest.mark.usefixtures("sysfs")
def test_rows() -> None:
    assert gpus.parse_gpus(TWO)[1] == {
        "index": 1,
        "uuid": "GPU-bbbb",
        "model": "NVIDIA H100 80GB HBM3",
        "memory_mib": 81559,
        "pci": "00000000:2A:00.0",
        "driver": "570.86.15",
        "numa_node": -1,
        "users": [],
    }


@pytest.mark.usefixtures("sysfs")
def test_rows_of_an_h100() -> None:
    (row,) = gpus.parse_gpus(answer("gpus.csv"))
    assert (row["uuid"], row["model"], row["memory_mib"]) == (GPU, "NVIDIA H100 80GB HBM3", 81559)
    assert (row["pci"], row["driver"]) == ("00000000:00:06.0", "580.159.04")
    assert gpus.parse_users(answer("users.csv")) == {GPU: ["1371 /opt/venv/bin/python3"]}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("No devices were found\n", 0),
        ("warning: infoROM is corrupted at gpu 0000:18:00.0\n" + TWO, 2),
        ("0, GPU-a, GB200, [N/A], x, y\n", 1),
        ("0, GPU-a\n", 0),
    ],
)
def test_what_nvidia_smi_may_print(text: str, count: int) -> None:
    assert len(gpus.parse_gpus(text)) == count


def test_memory_that_is_not_told_is_zero() -> None:
    assert gpus.parse_gpus("0, GPU-a, GB200, [N/A], x, y\n")[0]["memory_mib"] == 0


@pytest.mark.parametrize(
    ("text", "users"),
    [("", {}), (USERS, {"GPU-bbbb": ["4711 python", "4712 /usr/bin/python3"]}), ("No running processes found\n", {})],
)
def test_users(text: str, users: dict[str, list[str]]) -> None:
    assert gpus.parse_users(text) == users


@pytest.fixture
def sysfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that adds a PCI device."""
    monkeypatch.setattr(gpus, "PCI", tmp_path)
    monkeypatch.setattr(numa_facts, "PCI", tmp_path)

    def add(name: str, vendor: str = "0x10de", pci_class: str = "0x030200") -> None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "vendor").write_text(vendor + "\n")
        (tmp_path / name / "class").write_text(pci_class + "\n")

    return add


def test_only_nvidias_display_controllers_count(sysfs: Any, tmp_path: Path) -> None:
    sysfs("0000:18:00.0")
    sysfs("0000:2a:00.0", pci_class="0x030000")
    sysfs("0000:2a:00.1", pci_class="0x040300")
    sysfs("0000:01:00.0", vendor="0x8086")
    (tmp_path / "broken").mkdir()
    assert gpus.pci_addresses() == ["0000:18:00.0", "0000:2a:00.0"]


def test_the_numa_node_of_each(sysfs: Any, tmp_path: Path) -> None:
    for number, node in (("0000:18:00.0", "1\n"), ("0000:2a:00.0", "-1\n")):
        sysfs(number)
        (tmp_path / number / "numa_node").write_text(node)
    assert [row["numa_node"] for row in gpus.parse_gpus(TWO)] == [1, -1]


@pytest.mark.parametrize(
    ("present", "smi", "count", "problem"),
    [
        (0, None, 0, ""),
        (2, None, 0, "2 NVIDIA GPU(s) but no nvidia-smi: is the driver installed?"),
        (2, TWO, 2, ""),
        (3, TWO, 2, "3 NVIDIA GPU(s) in sysfs, nvidia-smi shows 2"),
        (0, OSError("driver not loaded"), 0, ""),
        (2, OSError("driver not loaded"), 0, "nvidia-smi does not work: driver not loaded"),
    ],
)
def test_sysfs_and_nvidia_smi(
    sysfs: Any, monkeypatch: pytest.MonkeyPatch, present: int, smi: Any, count: int, problem: str
) -> None:
    for number in range(present):
        sysfs(f"0000:{number:02x}:00.0")

    def answer(*queries: list[str]) -> list[str]:
        if isinstance(smi, OSError):
            raise smi
        return [USERS if "compute" in query[0] else str(smi) for query in queries]

    monkeypatch.setattr("ddp_play.guard.programs.which", lambda _: None if smi is None else "/usr/bin/nvidia-smi")
    monkeypatch.setattr(gpus, "smi", answer)
    rows, said = gpus.gpus()
    assert (len(rows), said) == (count, problem)
    if count:
        assert rows[1]["users"] == ["4711 python", "4712 /usr/bin/python3"]


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes a program `nvidia-smi` of these lines."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")

    def make(lines: str) -> None:
        path = tmp_path / "bin" / "nvidia-smi"
        path.write_text(f"#!/bin/sh\n{lines}\n")
        path.chmod(0o755)

    return make


def test_gpus_and_their_processes_are_asked_for_at_once(sysfs: Any, stub: Any, tmp_path: Path) -> None:
    """Each process of nvidia-smi waits until it has seen the other."""
    sysfs("0000:18:00.0")
    stub(f"""case "$1" in *query-gpu=*) mine={tmp_path}/a other={tmp_path}/b rows='{TWO}' ;;
*) mine={tmp_path}/b other={tmp_path}/a rows='{USERS}' ;; esac
touch $mine
until test -e $other; do sleep 0.01; done
printf %s "$rows" """)
    rows, problem = gpus.gpus()
    assert ([row["users"] for row in rows], problem) == ([[], ["4711 python", "4712 /usr/bin/python3"]], "")


def test_gpus_are_asked_each_time(sysfs: Any, stub: Any) -> None:
    """A GPU that has failed since the last run is told."""
    sysfs("0000:18:00.0")
    stub(f"printf %s '{TWO}'")
    assert gpus.gpus()[1] == ""
    stub("echo GPU is lost; exit 15")
    assert gpus.gpus() == ([], "nvidia-smi does not work: GPU is lost")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_does_not_even_end_when_it_is_killed_is_left(
    sysfs: Any, stub: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In state D, of a driver that hangs: a channel that waits for it never answers again."""
    monkeypatch.setattr(gpus, "SMI_S", 0.3)
    monkeypatch.setattr(gpus, "LEAVE_S", 0.1)
    sysfs("0000:18:00.0")
    stub("exec sleep 20")
    left: list[int] = []
    monkeypatch.setattr(subprocess.Popen, "kill", lambda process: left.append(process.pid))
    began = time.monotonic()
    try:
        assert "timed out" in gpus.gpus()[1]
        assert time.monotonic() - began < 15
        assert len(left) == 2
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)


def test_an_nvidia_smi_that_hangs_is_ended(sysfs: Any, stub: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpus, "SMI_S", 0.3)
    sysfs("0000:18:00.0")
    stub("exec sleep 600")
    began = time.monotonic()
    rows, problem = gpus.gpus()
    assert rows == []
    assert "timed out" in problem
    assert time.monotonic() - began < 60
