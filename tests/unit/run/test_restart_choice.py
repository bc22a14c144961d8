"""What follows an attempt, from the bundle: how often the job starts again, and with which hosts."""

from __future__ import annotations

import fcntl
import threading
import time

import pytest

from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.bundle.paths import write_json
from ddp_play.bundle.writer import Bundle
from ddp_play.run.attempt_history import AttemptHistory
from ddp_play.run.restart_choice import replan_input, restart_policy, with_engines_reason
from ddp_play.run.restart_decision import Ended, Policy
from ddp_play.run.stop_requests import StopRequests
from tests.unit.run.conftest import Make


def test_the_policy_is_that_of_the_job(staged: Make) -> None:
    stage = staged(2, restarts=3, restart_exit_codes=[75])
    assert restart_policy(stage.paths) == Policy(3, (75,))
    write_json(stage.paths.job, {})
    assert restart_policy(stage.paths) == Policy(0)


def test_the_next_plan_knows_the_hosts_that_refused_and_those_of_the_first_attempt(staged: Make) -> None:
    stage = staged(2, 1)
    rows = [{"attempt": 1, "hosts": ["h1", "h2"], "retired": {"h1": "lost"}}]
    write_json(stage.paths.run, {**stage.document, "attempts": rows})
    history = AttemptHistory(Bundle(stage.paths))
    known = replan_input(stage.supervisor().assignment, history, {"h2": "busy"})
    assert (known.retired, known.wanted) == ({"h1": "lost", "h2": "busy"}, 2)
    assert known.fleet is not None
    stage.paths.fleet.unlink()
    assert replan_input(stage.supervisor().assignment, history, {}).fleet is None


@pytest.mark.parametrize(
    ("status", "code", "stopped", "waits"),
    [
        (RunStatus.FAILED, 143, True, False),
        (RunStatus.FAILED, 143, False, True),
        (RunStatus.FAILED, 137, False, False),
        (RunStatus.STOPPED, 137, True, True),
    ],
)
def test_the_engines_reason_is_waited_for_only_where_it_may_have_ended_the_ranks(
    staged: Make, status: RunStatus, code: int, stopped: bool, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.run.restart_choice.REASON_S", 60.0)
    paths = staged(2).paths
    write_json(paths.allocation, {"has_controller": True})
    requests = StopRequests(paths)
    ranks = tuple(
        RankOutcome(rank, f"h{rank + 1}", "exited", exit_code=code, signal=code - 128, stopped=stopped and rank == 0)
        for rank in (0, 1)
    )
    ended = Ended(1, Outcome(status, Verdict("rank_failed", "killed", code, rank=1, host="h2"), ranks), {})
    paths.engine_lock.parent.mkdir(parents=True, exist_ok=True)
    with paths.engine_lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        order = {"reason": "Slurm job 1 was preempted"}
        late = threading.Timer(3.0, write_json, args=(paths.stop_request(now=False), order))
        late.start()
        began = time.monotonic()
        found = with_engines_reason(ended, paths, requests)
        took = time.monotonic() - began
        late.join()
    assert found.outcome.verdict.message == ("Slurm job 1 was preempted" if waits else "killed")
    assert (took >= 2.0) is waits
