"""Restart decision: restart or end, and the hosts to retire."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.run.restart_decision import End, Ended, Policy, Restart, next_step


def ended(kind: str = "rank_failed", *, attempt: int = 1, gone: tuple[str, ...] = (), **row: Any) -> Ended:
    """Rank 1 on h2 ended like this; rank 0 on h1 was stopped because of it."""
    ranks = (
        RankOutcome(0, "h1", "exited", exit_code=143, signal=15, stopped=True),
        RankOutcome(1, "h2", **{"state": "exited", "exit_code": 1, **row}),
    )
    status = RunStatus.STOPPED if kind == "stopped" else RunStatus.FAILED
    outcome = Outcome(status, Verdict(kind, "why", 1, rank=1, host="h2"), ranks)
    return Ended(attempt, outcome, dict.fromkeys(gone, "silent for 30 s"))


KILLED: dict[str, Any] = {"exit_code": 137, "signal": 9}
ONCE = Policy(1)


@pytest.mark.parametrize(
    ("case", "policy", "reason"),
    [
        (ended(**KILLED), ONCE, "rank 1 on h2 was killed from outside"),
        (ended(exit_code=None, detail="the container was removed from outside"), ONCE, "removed from outside"),
        (ended("host_lost", state="lost", gone=("h2",)), ONCE, "host h2 was lost"),
        (ended("lease"), ONCE, "no controller for longer than the lease"),
        (ended(exit_code=75), Policy(1, (75, 76)), "exit code 75 (ddp_job_restart_exit_codes)"),
        (ended(**KILLED, oom=True), Policy(1, (137,)), "exit code 137"),
    ],
)
def test_failures_of_the_infrastructure_restart(case: Ended, policy: Policy, reason: str) -> None:
    step = next_step(case, policy, ())
    assert isinstance(step, Restart)
    assert reason in step.reason


@pytest.mark.parametrize(
    ("row", "policy", "error"),
    [
        ({"exit_code": 75}, Policy(1, (75,)), "ValueError: loss is nan"),
        (KILLED, ONCE, ""),  # whatever its log shows, it survived it
        (KILLED, Policy(1, (137,)), "ValueError: loss is nan"),
    ],
)
def test_a_restart_for_an_exit_code_has_the_error_of_the_rank(row: dict[str, Any], policy: Policy, error: str) -> None:
    case = ended(**row)
    verdict = dataclasses.replace(case.outcome.verdict, error="ValueError: loss is nan")
    step = next_step(dataclasses.replace(case, outcome=dataclasses.replace(case.outcome, verdict=verdict)), policy, ())
    assert isinstance(step, Restart)
    assert step.error == error


@pytest.mark.parametrize(
    ("case", "policy"),
    [
        (ended(**KILLED), Policy(0)),
        (ended(exit_code=3), ONCE),
        (ended(exit_code=75), ONCE),
        (ended(**KILLED, oom=True), ONCE),
        (ended(exit_code=139, signal=11), ONCE),
        (ended("stopped"), ONCE),
        (ended("max_duration"), ONCE),
        (ended("idle"), ONCE),
    ],
)
def test_failures_of_the_job_and_stop_requests_end_the_run(case: Ended, policy: Policy) -> None:
    assert next_step(case, policy, ()) == End()


def test_a_run_that_succeeded_ends() -> None:
    outcome = Outcome(RunStatus.SUCCEEDED, Verdict("done", "all", 0))
    assert next_step(Ended(1, outcome), ONCE, ()) == End()


def test_the_same_fault_again_ends_when_the_restarts_are_used_up() -> None:
    step = next_step(ended(**KILLED, attempt=2), ONCE, ("h2",))
    assert step == End("attempt 2 of 2: ddp_job_restarts is 1")
    assert isinstance(next_step(ended(**KILLED, attempt=2), Policy(2), ("h2",)), Restart)


@pytest.mark.parametrize(
    ("case", "faults", "gone", "suspects"),
    [
        (ended(**KILLED), (), [], []),  # one failure does not make a host suspect
        (ended(**KILLED), ("h1",), [], []),
        (ended(**KILLED), ("h2",), [], ["h2"]),
        (ended("host_lost", state="lost", gone=("h2",)), (), ["h2"], []),
        (ended("host_lost", state="lost"), (), [], ["h2"]),  # it answers, but has no guard
        (ended("host_lost", state="lost", gone=("h1", "h2")), (), ["h1", "h2"], []),
    ],
)
def test_who_is_retired(case: Ended, faults: tuple[str, ...], gone: list[str], suspects: list[str]) -> None:
    step = next_step(case, ONCE, faults)
    assert isinstance(step, Restart)
    assert (sorted(step.gone), sorted(step.suspects)) == (gone, suspects)


def test_an_attempt_ended_without_further_trouble_unless_it_says_so() -> None:
    got = ended(**KILLED)
    assert (got.undrained, got.disk_full, Policy(1).exit_codes) == ((), False, ())


@pytest.mark.parametrize("row", [{"signal": 15}, {"signal": 9, "stopped": True}, {"signal": 9, "oom": True}])
def test_only_a_kill_that_neither_we_nor_the_kernel_sent_came_from_outside(row: dict[str, Any]) -> None:
    assert next_step(ended(**{"exit_code": 137, **row}), ONCE, ()) == End()


def test_a_verdict_without_a_rank_of_the_attempt_ends_the_run() -> None:
    verdict = Verdict("rank_failed", "why", 1, rank=7, host="h9")
    got = Ended(1, Outcome(RunStatus.FAILED, verdict, ended(**KILLED).outcome.ranks))
    assert next_step(got, ONCE, ()) == End()


@pytest.mark.parametrize(("attempt", "restarts", "again"), [(1, 1, True), (2, 1, False), (2, 2, True), (3, 2, False)])
def test_as_many_restarts_as_the_job_allows(attempt: int, restarts: int, again: bool) -> None:
    step = next_step(ended(**KILLED, attempt=attempt), Policy(restarts), ())
    assert isinstance(step, Restart) is again


@pytest.mark.parametrize(
    "case", [ended("stopped"), Ended(1, Outcome(RunStatus.FAILED, Verdict("rank_failed", "", 143)))]
)
def test_an_engine_that_takes_the_hosts_leads_to_a_restart_elsewhere(case: Ended) -> None:
    assert next_step(case, ONCE, (), "it was preempted") == Restart("it was preempted", requeued=True)
    assert next_step(case, Policy(0), (), "it was preempted") == End()
    last = dataclasses.replace(case, ordinal=2)
    assert next_step(last, ONCE, (), "it was preempted") == End("attempt 2 of 2: ddp_job_restarts is 1")


def test_a_rank_that_failed_before_the_engine_came_ends_the_run() -> None:
    assert next_step(ended(exit_code=3), ONCE, (), "it was preempted") == End()
