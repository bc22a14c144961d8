"""Outcome of a run: what a rank's end is called, and what run.json has of it, also after an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict, error_fields, signal_name
from ddp_play.errors import Interrupted, UsageError


def rank(state: str = "exited", **fields: Any) -> RankOutcome:
    return RankOutcome(1, "h2", state, **fields)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (rank(exit_code=0), "exit code 0"),
        (rank(exit_code=3), "exit code 3"),
        (rank(exit_code=137, signal=9), "signal 9 (SIGKILL)"),
        (rank(exit_code=137, signal=9, oom=True), "signal 9 (SIGKILL), out of memory"),
        (rank(exit_code=200, signal=72), "signal 72 (signal 72)"),
        (rank(), "ended, exit code unknown"),
        (rank(detail="removed from outside"), "removed from outside"),
        (rank("lost", detail="silent for 30 s"), "lost with its host"),
        (rank("created"), "never started"),
        (rank("running"), "still running"),
    ],
)
def test_how_a_rank_ended(row: RankOutcome, text: str) -> None:
    assert row.words() == text


@pytest.mark.parametrize(
    ("row", "ok", "failed"),
    [
        (rank(exit_code=0), True, False),
        (rank(exit_code=3), False, True),
        (rank(exit_code=143, signal=15, stopped=True), False, False),
        (rank("running"), False, False),
        (rank("lost"), False, False),
    ],
)
def test_success_and_failure(row: RankOutcome, ok: bool, failed: bool) -> None:
    assert (row.ok, row.failed) == (ok, failed)


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (None, "signal None"), (72, "signal 72")])
def test_names_of_signals(number: int | None, name: str) -> None:
    assert signal_name(number) == name


@pytest.mark.parametrize("status", list(RunStatus))
def test_three_states_are_final(status: RunStatus) -> None:
    assert status.final is (status.value in ("succeeded", "failed", "stopped"))


def test_a_verdict_survives_run_json() -> None:
    verdict = Verdict("rank_failed", "rank 1 on h2 failed", 3, rank=1, host="h2", tail=("a", "b"), collateral=(0,))
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json()))) == verdict


def test_an_outcome_has_the_keys_of_run_json() -> None:
    outcome = Outcome(RunStatus.FAILED, Verdict("rank_failed", "x", 3), (rank(exit_code=3),), left={"h2": ["/state"]})
    document = outcome.to_json()
    assert (document["status"], document["exit_code"], document["exit_class"]) == ("failed", 3, "rank_failed")
    assert (document["ranks"][0]["exit_code"], document["missing"]) == (3, [])
    assert document["left_behind"] == {"h2": ["/state"]}


@pytest.mark.parametrize(("error", "status"), [(UsageError("x", hint="y"), "failed"), (Interrupted("x"), "stopped")])
def test_an_error_is_an_outcome_without_ranks(error: UsageError | Interrupted, status: str) -> None:
    fields = error_fields(error, {})
    assert (fields["status"], fields["exit_code"], fields["verdict"]["message"]) == (status, error.exit_code, "x")
    assert fields["ranks"] == []


def test_an_error_after_the_end_keeps_ranks_and_files_that_run_json_lists() -> None:
    known = {"status": "succeeded", "ranks": [{"rank": 0}], "missing": [{"path": "x"}], "left_behind": {"h1": ["/x"]}}
    fields = error_fields(UsageError("a later play failed"), known)
    assert fields["status"] == "failed"
    assert {name: fields[name] for name in ("ranks", "missing", "left_behind")} == {
        name: known[name] for name in ("ranks", "missing", "left_behind")
    }
