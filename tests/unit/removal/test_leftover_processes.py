"""Ending the guard and the ranks of an attempt before its files are removed: these processes, and no others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import leftovers, processes
from ddp_play.guard.run_directory import HostRun
from tests.unit.guard.stand_ins import DEAF, LAST_WORDS, SLEEPS, guard_state, row_of, started
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path


def test_a_guard_gets_the_time_to_stop_its_ranks(tmp_path: Path) -> None:
    with started(LAST_WORDS % (tmp_path / "done")) as guard:
        leftovers.stop_guard(guard_state(guard))
        assert (tmp_path / "done").exists(), "nothing of a guard that still works is removed"
        assert guard.wait(5) == 0


def test_a_guard_that_ignores_the_order_is_killed_after_its_grace_period() -> None:
    with started(DEAF) as guard:
        began = time.monotonic()
        leftovers.stop_guard(guard_state(guard), 0.3)
        assert guard.wait(5) == -signal.SIGKILL
        assert 0.3 <= time.monotonic() - began < 3


@pytest.mark.parametrize("changed", [{"boot": "another"}, {"boot": ""}, {"guard_ticks": None}, {"guard_ticks": 1}])
def test_a_process_that_may_not_be_the_guard_is_not_signalled(changed: dict[str, Any]) -> None:
    """The kernel gives a pid to another process after a reboot, and some time after the guard's end."""
    with started(SLEEPS) as neighbour:
        leftovers.stop_guard(guard_state(neighbour, **changed), 0.1)
        with pytest.raises(subprocess.TimeoutExpired):
            neighbour.wait(0.2)


def test_a_guard_that_has_ended_is_not_waited_for() -> None:
    with started("echo") as guard:
        state = guard_state(guard)
        guard.wait(5)
        began = time.monotonic()
        leftovers.stop_guard(state)
        leftovers.stop_guard({})
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("changed", [{"ticks": None}, {"ticks": 1}, {"pid": None}])
def test_a_process_that_may_not_be_a_rank_is_not_signalled_and_the_others_are(changed: dict[str, Any]) -> None:
    with started(SLEEPS) as neighbour, started(SLEEPS) as rank:
        rows = {"0": {**row_of(neighbour), **changed}, "1": row_of(rank)}
        assert leftovers._stop_ranks({"boot": processes.boot_id(), "ranks": rows}) == []
        assert rank.wait(5) == -signal.SIGKILL
        assert neighbour.poll() is None


def test_ranks_are_ended_without_their_files_unless_their_guard_lives(tmp_path: Path) -> None:
    place = HostRun(tmp_path / "runs" / "night.0" / "1.h1")
    place.logs.mkdir(parents=True)
    with started(SLEEPS) as rank, started(SLEEPS) as guard:
        state = {"phase": "running", **guard_state(guard), "ranks": {"0": row_of(rank)}}
        place.state.write_text(json.dumps(state))
        assert leftovers.end_ranks(place) == []
        assert rank.poll() is None
        guard.kill()
        guard.wait(5)
        assert leftovers.end_ranks(place) == []
        assert rank.wait(5) == -signal.SIGKILL
    assert sorted(path.name for path in place.root.iterdir()) == ["logs", "state.json"]


def test_pids_of_an_earlier_boot_are_not_signalled() -> None:
    with started(SLEEPS) as neighbour:
        assert leftovers._stop_ranks({"boot": "another", "ranks": {"0": row_of(neighbour)}}) == []
        with pytest.raises(subprocess.TimeoutExpired):
            neighbour.wait(0.2)


@pytest.mark.parametrize(("container", "child_lives"), [(None, False), ("r0", True)])
def test_what_a_rank_forked_ends_with_it_and_a_container_is_left_to_its_engine(
    container: str | None, child_lives: bool
) -> None:
    """The group of a container's first process may be that of the engine's shim."""
    with started("sleep 100 & echo; wait") as rank:
        (child,) = processes.descendants(rank.pid)
        ticks = processes.start_ticks(child)
        rows = {"0": row_of(rank, container=container)}
        assert leftovers._stop_ranks({"boot": processes.boot_id(), "ranks": rows}) == []
        assert rank.wait(5) == -signal.SIGKILL
        deadline = time.monotonic() + (0.2 if child_lives else 5)
        while time.monotonic() < deadline and processes.alive(child, ticks):
            time.sleep(0.02)
        assert processes.alive(child, ticks) is child_lives
        processes.signal_exactly(child, ticks, signal.SIGKILL)


def test_a_process_that_cannot_be_killed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hang in the kernel, on a dead NFS server; the next attempt must not write what it still writes."""
    monkeypatch.setattr(leftovers, "KILL_S", 0.2)
    monkeypatch.setattr(processes, "signal_exactly", lambda *_, **__: True)
    with started(SLEEPS) as rank:
        left = leftovers._stop_ranks({"boot": processes.boot_id(), "ranks": {"3": row_of(rank)}})
        assert left == [f"rank 3: process {rank.pid} did not end after SIGKILL"]


@pytest.mark.parametrize(("container", "child_lives"), [(None, False), ("r0", True)])
def test_torchrun_ends_before_it_could_start_more_ranks(container: str | None, child_lives: bool) -> None:
    """Its ranks lead groups of their own; those in a container end with its first process."""
    with started("setsid sleep 100 & echo; wait") as torchrun, started(SLEEPS) as rank:
        wait_until(lambda: [pid for pid in processes.descendants(torchrun.pid) if os.getpgid(pid) == pid])
        (child,) = processes.descendants(torchrun.pid)
        ticks = processes.start_ticks(child)
        state = {"boot": processes.boot_id(), "agent": row_of(torchrun, container=container), "ranks": {}}
        assert leftovers._stop_ranks({**state, "boot": "another"}) == []
        assert processes.alive(torchrun.pid, None)
        assert leftovers._stop_ranks({**state, "ranks": {"0": row_of(rank)}}) == []
        assert torchrun.wait(5) == rank.wait(5) == -signal.SIGKILL
        assert processes.alive(child, ticks) is child_lives
        processes.signal_exactly(child, ticks, signal.SIGKILL)


def test_a_torchrun_that_cannot_be_killed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "KILL_S", 0.2)
    monkeypatch.setattr(processes, "signal_exactly", lambda *_, **__: True)
    with started("sleep 100 & echo; wait") as torchrun:
        (child,) = processes.descendants(torchrun.pid)
        left = leftovers._stop_ranks({"boot": processes.boot_id(), "agent": row_of(torchrun)})
        assert left == [f"torchrun: process {pid} did not end after SIGKILL" for pid in (child, torchrun.pid)]
