"""Runs that wait for an engine: submission, what the engine is asked, what the bundle says, how they are given up."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.cli.run import request_stop
from ddp_play.engines.interface import AllocationState, Ending, Phase
from ddp_play.errors import HostNotReady, Interrupted, UsageError
from ddp_play.run import engine_runs
from ddp_play.testing import FakeEngine
from tests.unit.build import job
from tests.unit.run.waiting_run import engine, paths, verdict, waiting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from ddp_play.engines.interface import Allocation, Wanted

__all__ = ["engine", "paths", "waiting"]

TIME = AllocationState(Phase.ENDED, ending=Ending("max_duration", 124, "reached its time limit"))
CANCELLED = AllocationState(Phase.ENDED, ending=Ending("stopped", 130, "was cancelled", stopped=True))


def test_a_submitted_run_waits_and_is_attended_without_a_process(waiting: RunPaths, engine: FakeEngine) -> None:
    run = engine_runs.load(waiting)
    assert (run.status, run.attended, run.over) == (RunStatus.WAITING, True, False)
    assert engine.wanted[0].run_dir == waiting.root


def test_an_engine_that_refuses_ends_the_run(engine: FakeEngine, paths: RunPaths) -> None:
    engine.refuses = UsageError("no such partition")
    with pytest.raises(UsageError):
        engine_runs.submit(paths, job(), engine)
    run = engine_runs.load(paths)
    assert (run.status, run.over, run.exit_code) == (RunStatus.FAILED, True, 64)
    assert verdict(paths)["message"] == "no such partition"


def test_each_new_reason_is_an_event_once(waiting: RunPaths, engine: FakeEngine) -> None:
    for text in ("Priority", "Priority", "Resources"):
        engine.now = AllocationState(Phase.PENDING, text)
        engine_runs.refresh(waiting)
    assert [line for line in waiting.events.read_text().splitlines() if '"queue"' in line].__len__() == 2


def test_the_engine_is_asked_once_in_a_while(
    waiting: RunPaths, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine_runs.refresh(waiting)
    monkeypatch.setattr(engine_runs, "REFRESH_S", 60.0)
    engine.now = CANCELLED
    assert engine_runs.load(waiting).attended


def test_what_can_never_start_is_cancelled_and_ends_with_the_reason(waiting: RunPaths, engine: FakeEngine) -> None:
    engine.now = AllocationState(Phase.PENDING, "PartitionTimeLimit", never="its time limit is too long")
    run = engine_runs.load(waiting)
    assert (engine.cancelled, run.over, run.exit_code) == (["1"], True, 64)
    assert "can never start: its time limit is too long" in verdict(waiting)["message"]


@pytest.mark.parametrize(
    ("state", "status", "code", "message"),
    [
        (CANCELLED, "stopped", 130, "fake job 1 was cancelled while it was pending"),
        (TIME, "failed", 124, "fake job 1 reached its time limit"),
        (AllocationState(Phase.ENDED), "failed", 70, "fake job 1 ended, and its engine does not say how"),
    ],
)
def test_an_allocation_that_ends_first_is_the_end_of_the_run(
    waiting: RunPaths, engine: FakeEngine, state: AllocationState, status: str, code: int, message: str
) -> None:
    engine.now = state
    (waiting.engine / "output.log").write_text("one\ntwo\n")
    (reserve := waiting.root / ".reserve").touch()
    run = engine_runs.load(waiting)
    assert not reserve.exists(), "a finished bundle has none"
    assert (str(run.status), run.exit_code, run.over) == (status, code, True)
    assert (verdict(waiting)["message"], verdict(waiting)["tail"]) == (message, ["one", "two"])
    engine.now = AllocationState(Phase.PENDING)
    assert engine_runs.load(waiting).exit_code == code, "an ended allocation is not asked for again"


def test_an_end_that_the_controller_wrote_stays(waiting: RunPaths, engine: FakeEngine) -> None:
    write_json(waiting.run, {**read_json(waiting.run), "status": "failed", "exit_code": 9})
    engine.now = TIME
    assert engine_runs.load(waiting).exit_code == 9


def test_a_controller_that_still_writes_is_waited_for(waiting: RunPaths, engine: FakeEngine) -> None:
    engine.now = TIME
    with waiting.background_lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert engine_runs.load(waiting).attended
        assert read_json(waiting.run)["status"] == "waiting"
    assert engine_runs.load(waiting).exit_code == 124


def test_an_engine_that_does_not_answer_is_not_asked_by_each_reader(
    waiting: RunPaths, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_runs, "SILENT_S", 60.0)
    engine.now = AllocationState(Phase.UNKNOWN, "it does not answer")
    assert engine_runs.load(waiting).attended
    engine.now = CANCELLED
    assert engine_runs.load(waiting).attended


def test_an_engine_that_does_not_answer_is_no_end(waiting: RunPaths, engine: FakeEngine) -> None:
    engine.now = AllocationState(Phase.UNKNOWN, "it does not answer")
    assert engine_runs.load(waiting).attended


@pytest.mark.parametrize(("phase", "cancelled"), [(Phase.PENDING, ["1"]), (Phase.GRANTED, [])])
def test_only_a_run_that_waits_is_taken_out_of_the_queue(
    waiting: RunPaths, engine: FakeEngine, phase: Phase, cancelled: list[str]
) -> None:
    run = engine_runs.load(waiting)
    engine.now = AllocationState(phase)
    assert engine_runs.cancel_pending(run) is bool(cancelled)
    assert engine.cancelled == cancelled
    assert engine_runs.load(waiting).over is bool(cancelled)


def test_ctrl_c_takes_a_waiting_run_out_of_the_queue(waiting: RunPaths, engine: FakeEngine) -> None:
    assert engine_runs.load(waiting).attended
    request_stop(waiting, now=False, reason="interrupted with Ctrl-C")
    run = engine_runs.load(waiting)
    assert (engine.cancelled, run.over, run.exit_code) == (["1"], True, 130)
    assert verdict(waiting)["message"] == "stopped before it started"


def test_a_job_that_was_requeued_after_its_run_is_cancelled(waiting: RunPaths, engine: FakeEngine) -> None:
    write_json(waiting.stop_request(now=False), {"reason": "Slurm job 1 was requeued"})
    ended = {**read_json(waiting.run), "status": "failed", "exit_code": 75}
    write_json(waiting.run, ended)
    assert engine_runs.load(waiting).over
    assert (engine.cancelled, read_json(waiting.run)) == (["1"], ended)


def test_an_engine_that_does_not_answer_cancels_later(
    waiting: RunPaths, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_allocation: Allocation) -> None:
        raise HostNotReady("it does not answer")

    write_json(waiting.stop_request(now=False), {"reason": "stopped"})
    with monkeypatch.context() as patch:
        patch.setattr(engine, "cancel", silent)
        assert engine_runs.load(waiting).attended
    engine.now = AllocationState(Phase.UNKNOWN, "it does not answer")
    found = engine_runs.load(waiting).allocation
    assert (found["phase"], found["text"]) == ("pending", "it does not answer"), "as far as it was"
    engine.now = AllocationState(Phase.PENDING)
    assert engine_runs.load(waiting).over
    assert engine.cancelled == ["1"]


def test_ctrl_c_during_the_submission_ends_the_run(
    engine: FakeEngine, paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_wanted: Wanted) -> Allocation:
        raise KeyboardInterrupt

    monkeypatch.setattr(engine, "allocate", interrupted)
    with pytest.raises(Interrupted, match="stopped before it started"):
        engine_runs.submit(paths, job(), engine)
    run = engine_runs.load(paths)
    assert (str(run.status), run.over, run.exit_code) == ("stopped", True, 130)


def test_ctrl_c_as_soon_as_the_job_is_known_takes_it_out_of_the_queue(
    engine: FakeEngine, paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = write_json

    def interrupted(path: Path, document: Any) -> None:
        stored(path, document)
        if path == paths.allocation and document["phase"] == "pending":
            raise KeyboardInterrupt

    monkeypatch.setattr(engine_runs, "write_json", interrupted)
    with pytest.raises(Interrupted, match="stopped before it started"):
        engine_runs.submit(paths, job(), engine)
    assert engine.cancelled == ["1"]
    run = engine_runs.load(paths)
    assert (str(run.status), run.over, run.exit_code) == ("stopped", True, 130)


def test_a_run_of_an_inventory_asks_nobody(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody: Callable[[str], None] = lambda _name: pytest.fail("no engine")  # noqa: E731
    monkeypatch.setattr(engine_runs, "engine_named", nobody)
    run = engine_runs.find("calm-otter")
    assert not run.attended
    assert not engine_runs.cancel_pending(run)
