"""Decisions of the guard at its end: when it may leave, and what it kills before."""

from __future__ import annotations

import resource
import signal
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import daemon, processes
from ddp_play.guard.daemon import Guard
from ddp_play.guard.state_file import StateFile
from tests.unit.guard.test_daemon import end, says
from tests.unit.guard.test_daemon import guard as running_guard
from tests.unit.removal.watched_guard import Watched, guard

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["guard"]


@pytest.mark.parametrize("ends", ["stored", "removed", "term"])
def test_the_last_state_is_offered_until_somebody_has_it(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: str
) -> None:
    guard.state_file = StateFile(tmp_path / "later" / "state.json")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        assert guard.state_file.problem
        if len(waits) == 2 and ends == "stored":
            (tmp_path / "later").mkdir()
            guard.state_file._tried = 0.0
        elif len(waits) == 2 and ends == "removed":
            guard.place.root.rename(tmp_path / "cleaned")
        elif len(waits) == 2:
            guard.term_received = True

    monkeypatch.setattr(daemon, "time", SimpleNamespace(sleep=wait))
    guard._conclude()
    assert len(waits) == 2
    assert guard.state_file.stored is (ends == "stored")
    assert guard._state()["phase"] == "ended"


def test_a_disk_that_was_full_a_moment_ago_is_tried_with_the_last_state(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    guard.state_file.problem, guard.state_file._tried = "full", time.monotonic()
    monkeypatch.setattr(daemon, "time", SimpleNamespace(sleep=waits.append))
    guard._conclude()
    assert (waits, guard.state_file.stored) == ([], True)


@pytest.mark.parametrize(("term", "prevented"), [(False, [3, 3]), (True, [0, 0])])
def test_a_guard_stays_until_no_container_can_start_late(
    guard: Guard, monkeypatch: pytest.MonkeyPatch, term: bool, prevented: list[int]
) -> None:
    """Unless it is told to leave: `gc` does the rest."""
    first = guard.ranks[0]
    assert isinstance(first, Watched)
    first.late, guard.term_received = True, term
    monkeypatch.setattr(daemon, "time", SimpleNamespace(sleep=lambda _: None, monotonic=time.monotonic))
    guard._end()
    assert [rank.prevented for rank in guard.ranks if isinstance(rank, Watched)] == prevented
    assert guard._state()["phase"] == "ended"


def test_what_ranks_forked_gets_a_second_to_end_and_is_killed_then(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    now = [100.0]

    def kill(_root: int, signum: int = signal.SIGKILL) -> int:
        sent.append(signum)
        return 1

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(processes, "kill_descendants", kill)
    monkeypatch.setattr(processes, "descendants", lambda _: [7])
    monkeypatch.setattr(daemon, "time", SimpleNamespace(sleep=sleep, monotonic=lambda: now[0]))
    guard._end()
    assert sent == [signal.SIGTERM, signal.SIGKILL]
    assert now[0] == pytest.approx(101.0, abs=0.1)


def test_a_closed_terminal_does_not_end_the_guard_and_an_interrupt_does(tmp_path: Path) -> None:
    with running_guard(tmp_path, "echo ready; sleep 100") as (place, process):
        place.order("go")
        says(place, b"ready")
        process.send_signal(signal.SIGHUP)
        time.sleep(3 * daemon.WATCH_S)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert end(place, process)["reason"] == "the guard was asked to end"


def test_ranks_write_no_core_files(tmp_path: Path) -> None:
    """A hung rank ends by SIGABRT, for its stacks; a core file would have the size of its memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("no process here may write a core file")
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        with running_guard(tmp_path, "ulimit -c") as (place, process):
            place.order("go")
            end(place, process)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert place.log(0).read_bytes() == b"0\n"
