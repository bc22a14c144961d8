"""Stop decision: the first reason to end the gang."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ddp_play.bundle.outcome import RankOutcome
from ddp_play.run.stop_decision import GangView, Limits, Stop, decide

LIMITS = Limits(
    settle_s=1.0,
    grace_s=30.0,
    failure_grace_s=2.0,
    host_timeout_s=30.0,
    idle_timeout_s=60.0,
    signal="SIGUSR1",
    start_timeout_s=300.0,
    patience_s=2.5,
)
RUNNING = RankOutcome(0, "h0", "running")
DONE = RankOutcome(1, "h1", "exited", exit_code=0)
FAILED = RankOutcome(2, "h2", "exited", exit_code=3)
STOPPED = RankOutcome(3, "h3", "exited", exit_code=143, signal=15, stopped=True)
LOST = RankOutcome(4, "h4", "lost")


def view(*ranks: RankOutcome, **fields: Any) -> GangView:
    return GangView(ranks, **fields)


CASES: list[tuple[str, GangView, Stop | None]] = [
    ("all is well", view(RUNNING, RUNNING), None),
    ("not started", view(RankOutcome(0, "h0", "created")), None),
    ("some have ended well", view(RUNNING, DONE), None),
    ("a failure that may not be the first", view(RUNNING, FAILED, failed_for_s=0.9), None),
    (
        "a failure",
        view(RUNNING, FAILED, failed_for_s=1.0),
        Stop("failure", "rank 2 on h2 failed: exit code 3", grace_s=2.0),
    ),
    ("ended because we ended it", view(RUNNING, STOPPED, failed_for_s=9.0), None),
    ("a lost host", view(RUNNING, LOST), Stop("host_lost", "host h4 was lost", grace_s=2.0)),
    (
        "a failure before a lost host",
        view(FAILED, LOST, failed_for_s=1.0),
        Stop("failure", "rank 2 on h2 failed: exit code 3", grace_s=2.0),
    ),
    (
        "a guard's time limit",
        view(RUNNING, guard_ends={"h1": "max_duration reached"}),
        Stop(
            "max_duration",
            "the time limit of the job was reached: ddp_job_max_duration (reported by h1)",
            "SIGUSR1",
            30.0,
        ),
    ),
    (
        "a guard's lease",
        view(RUNNING, guard_ends={"h1": "no controller for longer than the lease"}),
        Stop("lease", "no controller for longer than the lease (reported by h1)", "SIGUSR1", 30.0),
    ),
    (
        "a guard that was told",
        view(RUNNING, guard_ends={"h1": "the guard was asked to end"}),
        Stop("stopped", "the guard was asked to end (reported by h1)", "SIGUSR1", 30.0),
    ),
    (
        "a guard whose host shuts down",
        view(RUNNING, guard_ends={"h1": "the host is shutting down"}),
        Stop("host_lost", "the host is shutting down (reported by h1)", "SIGUSR1", 2.0),
    ),
    ("a guard's own failure is seen at its rank", view(RUNNING, guard_ends={"h1": "a rank on this host failed"}), None),
    ("quiet but not too long", view(RUNNING, idle_s=60.0), None),
    (
        "too quiet",
        view(RUNNING, idle_s=61.0),
        Stop("idle", "no output and no progress from any rank for 61 s (ddp_job_idle_timeout)", "SIGABRT", 3.0),
    ),
    ("quiet, and never any_output: still starting", view(RUNNING, idle_s=61.0, any_output=False), None),
    (
        "never heard for too long",
        view(RUNNING, idle_s=301.0, any_output=False),
        Stop("idle", "no output and no progress from any rank for 301 s (ddp_job_idle_timeout)", "SIGABRT", 3.0),
    ),
    ("all that failed blame a peer", view(RUNNING, FAILED, failed_for_s=2.4, only_collateral=True), None),
    (
        "and the peer does not speak",
        view(RUNNING, FAILED, failed_for_s=2.5, only_collateral=True),
        Stop("failure", "rank 2 on h2 failed: exit code 3", grace_s=2.0),
    ),
]


@pytest.mark.parametrize(("seen", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_decide(seen: GangView, expected: Stop | None) -> None:
    assert decide(seen, LIMITS) == expected


def test_a_decision_gives_the_ranks_their_grace_period() -> None:
    """Only a user's second request ends them at once."""
    found = decide(view(RUNNING, LOST), LIMITS)
    assert found is not None
    assert (found.now, found.signal, found.grace_s) == (False, "SIGTERM", 2.0)


def test_of_several_the_first_is_named() -> None:
    """The verdict looks for the cause; this is only why the gang is stopped."""
    failed = dataclasses.replace(FAILED, rank=5, host="h5", exit_code=9)
    found = decide(view(RUNNING, FAILED, failed, failed_for_s=1.0), LIMITS)
    assert found is not None
    assert found.reason == "rank 2 on h2 failed: exit code 3"
    found = decide(view(RUNNING, LOST, dataclasses.replace(LOST, rank=5, host="h5")), LIMITS)
    assert found is not None
    assert found.reason == "host h4 was lost"


def test_zero_switches_the_idle_timeout_off() -> None:
    assert decide(view(RUNNING, idle_s=1e9), dataclasses.replace(LIMITS, idle_timeout_s=0.0)) is None


@pytest.mark.parametrize(
    ("ranks", "over"),
    [
        ((RUNNING, DONE), False),
        ((DONE, FAILED), True),
        ((DONE, LOST), True),
        ((RankOutcome(0, "h", "created"),), False),
    ],
)
def test_over(ranks: tuple[RankOutcome, ...], over: bool) -> None:
    assert view(*ranks).over is over
