"""Outputs of programs for a ticket: which are asked, and what they answered."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import diagnostic_outputs as module
from ddp_play.guard.bounded_reading import NotReadableHere, read_all

if TYPE_CHECKING:
    from pathlib import Path


def program(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_each_command_of_the_host_and_of_its_hardware_interfaces(tmp_path: Path) -> None:
    for name in ("eth0/device", "eth1/device", "docker0"):
        (tmp_path / "sys/class/net" / name).mkdir(parents=True)
    wanted = module.wanted(str(tmp_path))
    assert {"nvidia-smi -q", "ibstat", "ethtool -S eth0", "ethtool -m eth1"} <= set(wanted)
    assert not any("docker0" in command for command in wanted)


def test_output_and_exit_code_are_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "ibstat", 'echo "$LC_ALL $1"; echo wrong >&2; exit 3', monkeypatch)
    assert module.output(["ibstat", "x"], 1000) == {"exit_code": 3, "output": "C x\nwrong\n", "left_out_bytes": 0}
    assert module.output(["ibstat", "x"], 5) == {"exit_code": 3, "output": "C x\nw", "left_out_bytes": 5}


def test_a_program_that_hangs_is_cut_and_one_that_is_missing_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "lscpu", "exec sleep 60", monkeypatch)
    read, _ = module.wanted(str(tmp_path))["lscpu"]
    assert read_all({"lscpu": (read, 0.3)})["lscpu"]["problem"] == "no answer within 0.3 s"
    with pytest.raises(NotReadableHere, match="no program no-such-program"):
        module.output(["no-such-program"], 10)


def test_all_outputs_of_a_host_together_are_less_than_the_controller_takes(tmp_path: Path) -> None:
    for number in range(9):
        (tmp_path / f"sys/class/net/eth{number}/device").mkdir(parents=True)
    commands = module.wanted(str(tmp_path))
    assert len(commands) == len(module.COMMANDS) + module.MOST_INTERFACES * len(module.OF_AN_INTERFACE)
    escapes = 6 * module.MOST_BYTES  # \\u0000 of each byte
    assert escapes + 300 * len(commands) < 1 << 20
