"""Lookup of runs by id, and their status."""

from __future__ import annotations

import builtins
import fcntl
import io
import os
from typing import Any

import pytest

from ddp_play.bundle.paths import RunPaths, home, write_json
from ddp_play.bundle.run_lookup import all_runs, find, load, newest_runs
from ddp_play.errors import UsageError


def make(name: str, *, created: float = 0.0, status: str = "succeeded") -> RunPaths:
    paths = RunPaths(home() / "runs" / name)
    paths.create()
    write_json(paths.run, {"id": name, "created": created, "status": status})
    return paths


@pytest.fixture
def three() -> None:
    make("calm-otter-1", created=1.0)
    make("calm-otter-12", created=3.0)
    make("wise-yak-7", created=2.0)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("calm-otter-1", "calm-otter-1"),
        ("calm-otter-12", "calm-otter-12"),
        ("wise", "wise-yak-7"),
        ("w", "wise-yak-7"),
        ("-", "calm-otter-12"),
    ],
)
def test_an_id_or_its_beginning(asked: str, found: str) -> None:
    assert find(asked).paths.run_id == found


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("calm", "several runs begin with calm: calm-otter-12, calm-otter-1"),
        ("none-such", "no run none-such under "),
        ("../../etc", "cannot be a run name"),
        ("../", "cannot be a run name"),
        ("--help", "cannot be a run name"),
        ("", "cannot be a run name"),
        ("yak", "no run yak under"),
    ],
)
def test_refusals(asked: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        find(asked)


@pytest.mark.usefixtures("three")
def test_an_unknown_id_gets_the_newest() -> None:
    with pytest.raises(UsageError) as caught:
        find("none-such")
    assert caught.value.hint == "the newest are calm-otter-12, wise-yak-7, calm-otter-1"


@pytest.mark.parametrize(("asked", "words"), [("-", "there are no runs yet"), ("some-run", "no run some-run")])
def test_without_any_run(asked: str, words: str) -> None:
    assert all_runs() == []
    with pytest.raises(UsageError, match=words) as caught:
        find(asked)
    assert caught.value.hint


def test_what_is_no_run_is_not_listed() -> None:
    make("real")
    (home() / "runs" / "stray").mkdir()
    (home() / "runs" / "file").touch()
    assert [run.paths.run_id for run in all_runs()] == ["real"]


def test_a_start_that_was_killed_is_nobodys_meaning() -> None:
    """`results NAME` answered with "did you mean NAME?"."""
    make("real-run")
    (home() / "runs" / "night").mkdir()
    with pytest.raises(UsageError, match=r"run night has no run\.json: it is just starting, or its start") as caught:
        find("night")
    assert caught.value.hint == "ddp-play rm night removes what a killed start left"
    with pytest.raises(UsageError, match="no run nigth") as caught:
        find("nigth")
    assert caught.value.hint == "the newest are real-run"


@pytest.mark.parametrize(
    ("status", "locked", "over", "words"),
    [
        ("running", True, False, "running"),
        ("running", False, False, "running (unattended)"),
        ("succeeded", True, False, "succeeded"),
        ("succeeded", False, True, "succeeded"),
        ("stopped", False, True, "stopped"),
    ],
)
def test_the_status_of_a_run(status: str, locked: bool, over: bool, words: str) -> None:
    """A run is over only when no process holds a lock: the rest of the playbook may still run."""
    paths = make("r1", status=status)
    with (paths.root / "background.lock").open("a") as lock:
        if locked:
            fcntl.flock(lock, fcntl.LOCK_EX)
        run = load(paths)
        assert (run.attended, run.over, run.status_text) == (locked, over, words)


def test_a_bundle_whose_removal_did_not_end_is_not_listed() -> None:
    make("real")
    make(".removed-old-1")
    assert [run.paths.run_id for run in all_runs()] == ["real"]


def test_the_newest_runs_open_no_more_bundles_than_they_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """With ten thousand bundles `ps` opens eleven: run.json is at least as new as its run."""
    for number in range(100):
        paths = make(f"run-{number}", created=1000.0 + number)
        os.utime(paths.run, (0, 1000.5 + number))
    make("typo", created=2000.0, status="failed")
    opened: list[str] = []
    real = io.open

    def count(file: Any, *words: Any, **more: Any) -> Any:
        opened.append(str(file))
        return real(file, *words, **more)

    monkeypatch.setattr(io, "open", count)
    monkeypatch.setattr(builtins, "open", count)
    newest = newest_runs(10)
    assert [run.paths.run_id for run in newest.runs] == [f"run-{number}" for number in range(99, 89, -1)]
    assert (newest.never_started, newest.older) == (1, 90)
    assert len({path for path in opened if path.endswith("run.json")}) == 11


def test_a_run_that_was_written_late_does_not_displace_a_newer_one() -> None:
    for number in range(4):
        paths = make(f"run-{number}", created=1000.0 + number)
        os.utime(paths.run, (0, 5000.0 - number))
    newest = newest_runs(2)
    assert [run.paths.run_id for run in newest.runs] == ["run-3", "run-2"]
    assert newest.older == 2


def test_copied_bundles_whose_files_are_all_new() -> None:
    """After a restore no run.json tells by its time which runs are the newest."""
    for number in range(30):
        os.utime(make(f"run-{number:02}", created=1000.0 + number).run, (0, 9000.0))
    newest = newest_runs(3)
    assert [run.paths.run_id for run in newest.runs] == ["run-29", "run-28", "run-27"]
    assert (newest.never_started, newest.older) == (0, 27)
    assert find("-").paths.run_id == "run-29"


def test_a_run_that_is_named_is_found_without_reading_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(5):
        make(f"run-{number}", created=float(number))
    opened: list[str] = []
    real = io.open

    def count(file: Any, *words: Any, **more: Any) -> Any:
        opened.append(str(file))
        return real(file, *words, **more)

    monkeypatch.setattr(builtins, "open", count)
    assert find("run-3").paths.run_id == "run-3"
    assert [path for path in opened if path.endswith("run.json")] == [str(RunPaths.of("run-3").run)]


def test_locks_of_finished_runs_are_not_opened_for_the_list() -> None:
    paths = make("done")
    write_json(paths.run, {"id": "done", "created": 1.0, "status": "failed", "finished": True})
    with paths.lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert [run.attended for run in all_runs()] == [False]
        assert find("done").attended, "a run that is asked for is read with its locks"


@pytest.mark.parametrize(
    ("phase", "status", "attended"),
    [
        ("pending", "waiting", True),
        ("granted", "running", True),
        ("unknown", "running", True),
        ("ended", "running", False),
        ("granted", "failed", False),  # Slurm still tidies up
    ],
)
def test_a_run_with_an_allocation_needs_no_process_here(phase: str, status: str, attended: bool) -> None:
    paths = make("queued", status=status)
    write_json(paths.allocation, {"phase": phase})
    assert load(paths).attended is attended


def test_a_run_is_not_over_while_the_controller_in_its_allocation_still_writes() -> None:
    paths = make("ended", status="failed")
    write_json(paths.allocation, {"phase": "granted"})
    with paths.engine_lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not load(paths).over
    assert load(paths).over
