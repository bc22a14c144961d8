"""The verdict that is kept while files are collected."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.bundle.paths import RunPaths
from ddp_play.run import judged_outcome
from tests.unit.run.conftest import Make

OUTCOME = Outcome(
    RunStatus.FAILED,
    Verdict("rank_failed", "rank 0 on h1 failed first", 3, rank=0, host="h1", tail=("a", "b"), collateral=(1,)),
    (RankOutcome(0, "h1", "exited", exit_code=3, kernel=("oom",)), RankOutcome(1, "h2", "lost")),
    ({"host": "h2", "path": "x", "why": "y"},),
    {"h2": ["unknown"]},
)


@pytest.fixture
def paths(make: Make) -> RunPaths:
    return make(1, network="").paths


def test_it_comes_back_as_it_was_for_its_attempt_only(paths: RunPaths) -> None:
    judged_outcome.store(paths, 2, OUTCOME)
    assert judged_outcome.stored(paths, 2) == OUTCOME
    assert judged_outcome.stored(paths, 1) is None
    judged_outcome.remove(paths)
    judged_outcome.remove(paths)
    assert judged_outcome.stored(paths, 2) is None


def test_a_full_disk_does_not_end_the_run(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("ddp_play.run.judged_outcome.write_json", full)
    judged_outcome.store(paths, 1, OUTCOME)
    assert judged_outcome.stored(paths, 1) is None
