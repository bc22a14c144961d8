"""Rows of ended attempts in run.json: each attempt once, whoever records it."""

from __future__ import annotations

from ddp_play.bundle.outcome import Verdict
from ddp_play.bundle.paths import read_json
from ddp_play.bundle.writer import Bundle
from ddp_play.run.attempt_history import AttemptHistory
from tests.unit.run.conftest import Make


def test_an_attempt_is_recorded_once_also_by_a_second_supervisor(make: Make) -> None:
    stage = make(2)
    assignment = stage.supervisor().assignment
    verdict = Verdict("rank_failed", "rank 0 was killed", 1, host="h1")
    first = AttemptHistory(Bundle(stage.paths))
    assert (first.rows, first.before(1)) == ([], [])
    first.add(assignment, verdict, "killed from outside", {"h2": "lost"})
    second = AttemptHistory(Bundle(stage.paths))
    (row,) = second.rows
    assert {key: row[key] for key in ("attempt", "hosts", "verdict", "message", "fault", "retired", "reason")} == {
        "attempt": 1,
        "hosts": ["h1", "h2"],
        "verdict": "rank_failed",
        "message": "rank 0 was killed",
        "fault": "h1",
        "retired": {"h2": "lost"},
        "reason": "killed from outside",
    }
    second.add(assignment, verdict, "again", {})
    assert [one["reason"] for one in read_json(stage.paths.run)["attempts"]] == ["again"]
    assert second.before(1) == []
    assert [one["attempt"] for one in second.before(2)] == [1]
