"""Whether the host shuts down, as systemd tells it; and a guard whose host does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import host_shutdown
from ddp_play.guard.orders import Orders
from ddp_play.guard.protocol import HOST_SHUTS_DOWN
from tests.unit.guard.test_daemon import end, says
from tests.unit.guard.test_daemon import guard as running_guard
from tests.unit.guard.test_fence import Recorded, fence

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The systemctl of a host with systemd, for tests to write; process 1 is systemd."""
    (tmp_path / "comm").write_text("systemd\n")
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    monkeypatch.setattr(host_shutdown, "PROCESS_1", str(tmp_path / "comm"))
    monkeypatch.setattr(host_shutdown, "SYSTEMD", str(tmp_path))
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    return program


def answers(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("script", "under_way"),
    [
        ('test "$*" = is-system-running && echo stopping; exit 1', True),
        ("echo running", False),
        ("echo degraded; exit 1", False),
        ("echo Failed to connect to bus >&2; exit 1", False),
    ],
)
def test_systemd_tells_whether_a_shutdown_is_under_way(systemd: Path, script: str, under_way: bool) -> None:
    answers(systemd, script)
    assert host_shutdown.is_under_way() is under_way


def test_without_systemd_no_shutdown_is_known(systemd: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answers(systemd, "echo stopping")
    monkeypatch.setattr(host_shutdown, "SYSTEMD", str(tmp_path / "none"))
    assert not host_shutdown.is_under_way()


def test_a_systemd_that_only_kills_what_is_left_answers_nothing_and_is_known(systemd: Path, tmp_path: Path) -> None:
    (tmp_path / "comm").write_text("systemd-shutdow\n")
    assert host_shutdown.is_under_way()


def test_a_systemd_that_does_not_answer_holds_nobody_up(systemd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_shutdown, "ANSWER_S", 0.3)
    answers(systemd, "exec sleep 20")
    began = time.monotonic()
    assert not host_shutdown.is_under_way()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(("exit_code", "phase"), [(143, "stopping"), (137, "stopping"), (1, "running"), (0, "running")])
def test_a_rank_that_the_shutdown_ended_before_it_reached_the_guard(
    systemd: Path, tmp_path: Path, exit_code: int, phase: str
) -> None:
    answers(systemd, "echo stopping")
    rank = Recorded(tmp_path)
    made = fence(rank, Orders())
    rank.row.update(state="exited", exit_code=exit_code)
    made.notice_shutdown([rank])
    assert (made.phase, made.reason) == (phase, HOST_SHUTS_DOWN if phase == "stopping" else "")


def test_a_rank_that_somebody_killed_is_no_shutdown(systemd: Path, tmp_path: Path) -> None:
    answers(systemd, "echo running")
    rank = Recorded(tmp_path)
    made = fence(rank, Orders())
    rank.row.update(state="exited", exit_code=143)
    made.notice_shutdown([rank])
    assert (made.phase, made.reason) == ("running", "")


def test_a_guard_that_is_asked_to_end_by_a_shutdown_says_so_and_since_when(systemd: Path, tmp_path: Path) -> None:
    answers(systemd, "echo stopping")
    rank = Recorded(tmp_path)
    made = fence(rank, Orders())
    made.term_received, before = True, time.time()
    made.turn()
    assert (made.reason, rank.sent) == (HOST_SHUTS_DOWN, [15])
    assert before <= (made.stopping_at or 0.0) <= time.time()


def test_the_state_of_a_guard_tells_when_it_began_to_stop_its_ranks(tmp_path: Path) -> None:
    with running_guard(tmp_path, "echo ready; sleep 100") as (place, process):
        place.order("go")
        says(place, b"ready")
        before = time.time()
        process.terminate()
        state = end(place, process)
    assert before <= state["stopping_at"] <= time.time()
