"""An attempt whose controller was lost with its allocation: fenced and collected before the next one, or the last."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ddp_play.bundle.outcome import Outcome, RunStatus, Verdict
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.engines.route import Route
from ddp_play.errors import Busy, HostNotReady
from ddp_play.guard.protocol import encode
from ddp_play.run import interrupted_attempt, judged_outcome, requeue
from ddp_play.run.interrupted_attempt import conclude
from ddp_play.run.supervisor_lock import supervisor_lock
from tests.unit.run.conftest import OK, SHARED, Make, Stage

LOST = Verdict("host_lost", "Slurm job 12 lost its controller on h1", 69)


@pytest.fixture
def cut(staged: Make, monkeypatch: pytest.MonkeyPatch) -> Any:
    """cut(**job values): the first attempt ran on h1 and h2, whose guards have ended their ranks since then."""
    monkeypatch.setattr(interrupted_attempt, "OPEN_S", 0.6)
    monkeypatch.setattr(interrupted_attempt, "FENCE_MARGIN_S", 0.2)

    def build(**values: Any) -> Stage:
        stage = staged(2, **values)
        routes = [Route(name, ("ssh", name), "channel").to_json() for name in stage.far]
        write_json(stage.paths.channels, {"routes": routes})
        for name in ("h1", "h2"):
            ended = stage.state(name, "ended", reason="lease", **{**OK, "exit_code": 143, "stopped": True})
            log = [encode("log", b"saved\n", rank=rank, at=0) for rank in stage.ranks(name)]
            stage.far[name].answers["follow"] = [*log, ended]
        known = {"status": "running", "attempt": 1, "started": 100.0, "directories": {"h1": "/a", "h2": "/b"}}
        write_json(stage.paths.run, {**stage.document, **known})
        return stage

    return build


def test_its_files_are_collected_and_the_run_goes_on(cut: Any) -> None:
    stage = cut()
    assert conclude(stage.paths, LOST)
    assert requeue.is_left(stage.paths)
    (row,) = stage.document["attempts"]
    assert (row["attempt"], row["reason"], row["requeued"]) == (1, LOST.message, True)
    assert stage.paths.attempt(1).log(0).read_text() == "saved\n"
    assert stage.document["uncollected"] == []
    told = [header["run_paths"] for header, _ in stage.far["h1"].orders if header["t"] == "clean"]
    assert told == [[]], "checkpoints in the shared directory stay"


def test_a_host_that_is_not_there_any_more_is_waited_for_as_long_as_its_lease(cut: Any) -> None:
    stage = cut(lease=1.0)
    stage.far["h2"].answers["open"] = []
    began = time.monotonic()
    assert conclude(stage.paths, LOST)
    assert time.monotonic() - began >= 1.0 + 0.1 + 0.2
    assert stage.document["uncollected"] == [{"attempt": 1, "host": "h2"}]


def test_ranks_that_a_host_cannot_end_keep_the_next_attempt_from_starting(
    cut: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.run.fencing.FENCE_MARGIN_S", 30.0)  # it answers before, and is not waited for
    stage = cut()
    stage.far["h2"].answers["clean"] = [encode("cleaned", left=["process 7 is still there"])]
    with pytest.raises(HostNotReady, match="ranks of attempt 1 may still run there"):
        conclude(stage.paths, LOST)
    assert not requeue.is_left(stage.paths)


def row_of(*, ended: float) -> dict[str, Any]:
    """The row of the first attempt."""
    return {"attempt": 1, "hosts": ["h1", "h2"], "retired": {}, "fault": "", "reason": "", "ended": ended}


@pytest.mark.parametrize("rows", [[], [row_of(ended=150.0)]])
def test_an_attempt_whose_ranks_were_not_started_costs_no_restart(cut: Any, rows: list[Any]) -> None:
    """Its hosts are asked and fenced all the same. The time in run.json is that of the attempt before it."""
    stage = cut(restarts=1)
    number = len(rows) + 1
    started = {"started": 100.0} if rows else {"started": None}
    write_json(stage.paths.run, {**stage.document, **started, "attempt": number, "attempts": rows})
    assert conclude(stage.paths, LOST)
    document = stage.document
    assert (document["attempts"], document["attempt"], stage.events("restart")) == (rows, number, [])
    assert requeue.reason(stage.paths) == LOST.message
    assert stage.paths.attempt(number).log(0).read_text() == "saved\n", "the start signal may have come"
    assert "clean" in stage.far["h1"].kinds()


def test_without_a_restart_left_the_run_ends_with_the_cause(cut: Any) -> None:
    stage = cut(restarts=1)
    write_json(stage.paths.run, {**stage.document, "attempt": 2, "attempts": [row_of(ended=50.0)]})
    (reserve := stage.paths.root / ".reserve").touch()
    assert not conclude(stage.paths, LOST)
    assert not reserve.exists(), "a finished bundle has none"
    document = stage.document
    assert (document["status"], document["exit_code"], document["finished"]) == ("failed", 69, True)
    assert document["verdict"]["message"] == LOST.message
    assert stage.events("warning")[-1]["message"] == "no restart: ddp_job_restarts is 1"
    told = [header["run_paths"] for header, _ in stage.far["h1"].orders if header["t"] == "clean"]
    assert told == [[SHARED]], "no attempt follows that would need it"


@pytest.mark.parametrize("is_there", [True, False])
def test_what_attempts_share_is_named_if_the_head_is_gone(cut: Any, is_there: bool) -> None:
    stage = cut(restarts=1)
    if not is_there:
        stage.far["h1"].answers["open"] = []
    put = stage.paths.attempt(1)
    put.root.mkdir(parents=True)
    write_json(put.plan, stage.plan.to_json())
    now = {"attempt": 2, "started": 100.0, "attempts": [row_of(ended=50.0)]}
    write_json(stage.paths.run, {**stage.document, **now})
    assert not conclude(stage.paths, LOST)
    left = [row for rows in (stage.document.get("left_behind") or {}).values() for row in rows]
    assert [row for row in left if row.startswith(SHARED)] == (
        [] if is_there else [f"{SHARED}: not collected, because no attempt followed"]
    )


def test_hooks_hear_of_the_restart_and_of_the_end(cut: Any, told: list[Any]) -> None:
    stage = cut(restarts=1)
    assert conclude(stage.paths, LOST)
    assert told == [("restart", {"attempt": 2, "reason": LOST.message, "hosts": []})]
    now = {"attempt": 2, "started": time.time(), "directories": {"h1": "/a"}, "requeue": None, "status": "running"}
    write_json(stage.paths.run, {**stage.document, **now})
    assert not conclude(stage.paths, LOST)
    assert [event for event, _ in told] == ["restart", "end"]


def test_ranks_that_had_ended_by_themselves_are_not_started_again(cut: Any) -> None:
    stage = cut()
    judged = Outcome(RunStatus.SUCCEEDED, Verdict("done", "all ranks exited 0", 0))
    judged_outcome.store(stage.paths, 1, judged)
    assert not conclude(stage.paths, LOST)
    assert (stage.document["status"], stage.document["exit_code"]) == ("succeeded", 0)


def test_an_attempt_that_no_host_knows_of_is_left_at_once(cut: Any) -> None:
    stage = cut()
    write_json(stage.paths.run, {**stage.document, "directories": {}})
    assert conclude(stage.paths, LOST)
    assert requeue.is_left(stage.paths)
    assert (stage.far["h1"].kinds(), stage.document.get("attempts")) == ([], None)


def test_a_start_that_was_cut_off_concludes_it_once_more(cut: Any) -> None:
    stage = cut()
    assert conclude(stage.paths, LOST)
    write_json(stage.paths.run, {**stage.document, "directories": {"h1": "/a"}, "requeue": None, "status": "running"})
    assert conclude(stage.paths, LOST)
    assert len(stage.document["attempts"]) == 1
    assert read_json(stage.paths.attempt(1).outcome)["verdict"]["kind"] == "host_lost"


def test_a_supervisor_that_lives_is_left_alone(cut: Any) -> None:
    stage = cut()
    with supervisor_lock(stage.paths), pytest.raises(Busy):
        conclude(stage.paths, LOST)
