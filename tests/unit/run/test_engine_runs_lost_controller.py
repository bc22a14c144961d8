"""Runs of an engine that have lost their controller: how they end, or go on with a requeued allocation."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.engines.interface import AllocationState, Ending, Phase
from ddp_play.run import engine_runs
from tests.unit.build import hosts, plan, shared
from tests.unit.run.waiting_run import engine, paths, verdict, waiting

if TYPE_CHECKING:
    from ddp_play.testing import FakeEngine

__all__ = ["engine", "paths", "waiting"]

HEADLESS = AllocationState(Phase.GRANTED, "lost node n1", ending=Ending("host_lost", 69, "lost node n1"))


def test_an_allocation_without_its_controller_is_cancelled_and_ends_the_run(
    waiting: RunPaths, engine: FakeEngine
) -> None:
    write_json(waiting.run, {**read_json(waiting.run), "status": "running", "directories": {"n1": "/x", "n2": "/y"}})
    engine.now = HEADLESS
    run = engine_runs.load(waiting)
    assert (run.status, run.exit_code, engine.cancelled) == (RunStatus.FAILED, 69, ["1"])
    assert verdict(waiting)["message"] == "fake job 1 lost node n1"
    rows = [{"attempt": 1, "host": "n1"}, {"attempt": 1, "host": "n2"}]
    assert run.document["uncollected"] == rows, "nobody can fetch them any more"


def test_what_earlier_attempts_left_stays_in_the_list_at_the_end(waiting: RunPaths, engine: FakeEngine) -> None:
    put = waiting.attempt(1)
    put.root.mkdir(parents=True)
    write_json(put.plan, plan(*hosts(1, shared=shared())).to_json())
    kept = {"h1": ["/src: not all of it was collected"], "h2": ["x"]}
    write_json(waiting.run, {**read_json(waiting.run), "attempts": [{"attempt": 1}], "left_behind": kept})
    engine.now = HEADLESS
    left = engine_runs.load(waiting).document["left_behind"]
    assert (left["h1"][0], left["h2"]) == (kept["h1"][0], ["x"])
    assert "because no attempt followed" in left["h1"][1]


def test_a_requeued_run_waits_also_if_nobody_could_say_so(waiting: RunPaths, engine: FakeEngine) -> None:
    """Its controller was lost; the engine's own stop request is no wish of a person."""
    write_json(waiting.run, {**read_json(waiting.run), "status": "running", "attempt": 1})
    write_json(waiting.stop_request(now=False), {"reason": "was preempted", "requeue": "yes"})
    engine.now = AllocationState(Phase.PENDING, "BeginTime")
    run = engine_runs.load(waiting)
    assert (run.status, run.attended, engine.cancelled) == (RunStatus.WAITING, True, [])


def test_a_person_can_stop_a_run_that_waits_for_its_next_attempt(waiting: RunPaths, engine: FakeEngine) -> None:
    requeue = {"reason": "was preempted"}
    write_json(waiting.run, {**read_json(waiting.run), "attempt": 1, "requeue": requeue})
    engine.now = AllocationState(Phase.PENDING, "BeginTime")
    assert engine_runs.cancel_pending(engine_runs.load(waiting))
    assert verdict(waiting)["message"] == "stopped while the run waited for its next attempt"


LOST = {"kind": "stopped", "message": "the guard was asked to end (reported by n2)", "exit_code": 130}


@pytest.fixture
def ended(waiting: RunPaths, engine: FakeEngine) -> RunPaths:
    engine.now = AllocationState(Phase.ENDED, ending=Ending("internal", 70, "had its controller killed by signal 9"))
    write_json(waiting.run, {**read_json(waiting.run), "status": "stopped", "verdict": LOST, "exit_code": 130})
    return waiting


def test_a_killed_controller_is_the_reason_for_what_guards_were_told(ended: RunPaths) -> None:
    engine_runs.name_lost_controller(ended)
    document = read_json(ended.run)
    assert (document["status"], document["exit_code"], document["exit_class"]) == ("failed", 70, "internal")
    assert document["verdict"]["message"] == "fake job 1 had its controller killed by signal 9"


def test_a_controller_that_lives_and_a_person_who_stopped_the_run_are_not_overruled(ended: RunPaths) -> None:
    with ended.engine_lock.open("a") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        engine_runs.name_lost_controller(ended)
    write_json(ended.stop_request(now=False), {"reason": "enough"})
    engine_runs.name_lost_controller(ended)
    assert read_json(ended.run)["verdict"] == LOST


def test_a_rank_that_failed_by_itself_stays_the_reason(ended: RunPaths) -> None:
    verdict_of_rank = {"kind": "rank_failed", "message": "rank 2 failed first", "exit_code": 9}
    write_json(ended.run, {**read_json(ended.run), "status": "failed", "verdict": verdict_of_rank})
    engine_runs.name_lost_controller(ended)
    assert read_json(ended.run)["verdict"] == verdict_of_rank
