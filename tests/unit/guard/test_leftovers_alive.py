"""Ranks and guards of an attempt end before its files go, and what does not end is told."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import leftovers, processes
from ddp_play.guard.run_directory import HostRun, write_json
from tests.unit.guard.prepared_attempt import laid_out, shared
from tests.unit.guard.stand_ins import LAST_WORDS, SLEEPS, guard_state, row_of, started
from tests.waiting import wait_until

if TYPE_CHECKING:
    pass

__all__ = ["shared"]


def test_a_rank_that_outlived_its_guard_is_ended_and_that_is_waited_for(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1)
    with started("echo; sleep 600") as rank:
        rows = {"0": row_of(rank)}
        write_json(place.state, {"phase": "running", "boot": processes.boot_id(), "ranks": rows})
        assert leftovers.clean(place).left == []
        assert rank.wait(5) == -9


def test_what_mounts_an_image_ends_with_its_rank(tmp_path: Path, shared: Path) -> None:
    """It leads a group of its own."""
    place = laid_out(tmp_path, shared, 1)
    with started("setsid sleep 600 & sleep 0.1; echo; wait") as rank:
        (helper,) = processes.children(rank.pid)
        rows = {"0": row_of(rank, by_apptainer=True)}
        write_json(place.state, {"phase": "running", "boot": processes.boot_id(), "ranks": rows})
        assert leftovers.clean(place).left == []
        assert rank.wait(5) == -9
        wait_until(lambda: not processes.alive(helper, None), timeout_s=10, what="its end")


def test_a_place_at_work_says_so(tmp_path: Path) -> None:
    place = HostRun(tmp_path / "1.h1")
    assert not place.attended()
    with place.attend():
        assert place.attended()
        with place.attend():
            assert place.attended(), "two channels may be at work for a moment"
    assert not place.attended()


def test_a_guard_that_cleans_up_itself_signals_nobody(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1)
    with started(SLEEPS) as guard, started(SLEEPS) as rank:
        write_json(place.state, guard_state(guard, ranks={"0": row_of(rank)}))
        assert leftovers.clean(place, by_guard=True).left == []
        with pytest.raises(subprocess.TimeoutExpired):
            rank.wait(0.2)
        assert guard.poll() is None
    assert not place.root.exists()


def test_the_guard_of_an_attempt_ends_before_its_files_are_removed(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1)
    with started(LAST_WORDS % (place.root / "done")) as guard:
        write_json(place.state, guard_state(guard))
        assert leftovers.clean(place).left == []
        assert guard.wait(5) == 0, "its files were there when it ended"
    assert not place.root.exists()


def refuse_removal(_path: Path) -> list[str]:
    return ["data: Read-only file system"]


def test_files_that_stay_are_not_told_as_ranks(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another attempt may start although the disk of the host has become read-only."""
    place = laid_out(tmp_path, shared, 1)
    monkeypatch.setattr(leftovers, "_remove_tree", refuse_removal)
    monkeypatch.setattr(leftovers, "_keep_only", lambda *_: ["state: Read-only file system"])
    with started(SLEEPS) as rank:
        write_json(place.state, guard_state(rank, ranks={"0": row_of(rank)}))
        found = leftovers.clean(place)
        assert rank.wait(5) < 0
    assert "data: Read-only file system" in found.left
    assert found.alive == []


def test_a_process_that_does_not_end_is_told(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = laid_out(tmp_path, shared, 1)
    monkeypatch.setattr(leftovers, "_stop_ranks", lambda _: ["rank 0: process 12 did not end after SIGKILL"])
    write_json(place.state, {"ranks": {}, "phase": "running"})
    rows = ["rank 0: process 12 did not end after SIGKILL"]
    assert leftovers.clean(place) == (rows, rows)


@pytest.mark.parametrize("lost", ["spec", "state"])
def test_where_it_cannot_be_read_what_ran_nothing_is_known_to_have_ended(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    place = laid_out(tmp_path, shared, 1)
    write_json(place.state, {"ranks": {}, "phase": "running"})
    getattr(place, lost).write_text("cut o")
    monkeypatch.setattr(leftovers, "_remove_tree", refuse_removal)
    monkeypatch.setattr(leftovers, "_keep_only", lambda *_: ["state: Input/output error"])
    found = leftovers.clean(place)
    assert found.left == found.alive != []
