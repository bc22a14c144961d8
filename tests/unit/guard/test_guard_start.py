"""The guard as a systemd unit."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import guard_start
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    return HostRun(tmp_path / "state" / "runs" / "r1" / "1.h1")


@pytest.mark.parametrize(
    ("version", "wanted"),
    [("systemd 252 (252.38-1~deb12u1)\n+PAM", True), ("systemd 243\n", True), ("systemd 239 (239-82.el8)\n", False)],
)
def test_a_rank_killed_for_memory_does_not_end_the_unit_of_its_guard(
    place: HostRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, wanted: bool
) -> None:
    """systemd before 243 has no such property, and does not end the unit either."""
    said = tmp_path / "said"
    for name, script in (("systemctl", f"printf '%s' '{version}'"), ("systemd-run", f'echo "$@" >{said}')):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    guard_start._start_unit("unit", ["guard"], place)
    assert ("--property=OOMPolicy=continue" in said.read_text()) is wanted


def test_in_a_step_of_an_allocation_the_guard_is_no_unit(
    place: HostRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A unit of systemd would leave the cgroup of the job, its limits and its end."""
    monkeypatch.setenv("DDP_PLAY_STEP", "1")
    monkeypatch.setattr(guard_start, "_start_unit", lambda *_args, **_more: pytest.fail("started as a unit"))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "no-program")])
    monkeypatch.setattr(guard_start, "GUARD_START_S", 0.3)
    place.guard_log.parent.mkdir(parents=True)
    with pytest.raises(Refused, match="the guard did not start"):
        guard_start.start_guard(place, ends_at_logout=True)
