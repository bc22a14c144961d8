"""Progress between attempts: what counts, when the run ends, what its verdict says."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus, Verdict
from ddp_play.guard.protocol import Header, encode
from ddp_play.run import attempt_progress
from ddp_play.run.presence import Presence
from ddp_play.run.stop_requests import StopRequests
from ddp_play.run.supervisor import Supervisor
from ddp_play.testing import refusal
from tests.unit.build import host, plan, shared
from tests.unit.run.conftest import KILLED, OK, Make, Stage, by_attempt, ends_when_told, state

OLD = {"path": "/shared/c.pt", "mtime_ns": 5, "size": 9, "age_s": 3720.0}
NEW = {**OLD, "mtime_ns": 6}
CUT = {**OLD, "size": 8}


def known(idle: int = 0, **newest: Any) -> dict[str, Any]:
    return {"newest": newest, "idle_attempts": idle}


@pytest.mark.parametrize(
    ("before", "after", "idle"),
    [
        (known(a=OLD), {"a": OLD}, 1),
        (known(1, a=OLD), {"a": OLD}, 2),
        (known(1, a=OLD), {"a": NEW}, 0),
        (known(1, a=OLD), {"a": CUT}, 0),
        (known(1, a=None), {"a": OLD}, 0),
        (known(a=None), {"a": None}, 1),
        (known(1, a=OLD), {"a": None}, 2),
        (known(1, a=OLD), {}, 1),
        (known(1, a=OLD), {"b": {**OLD, "path": "/mnt/c.pt"}}, 2),
        (known(1, a=OLD), {"b": NEW}, 0),
        (known(1, a=NEW, b=OLD), {"b": OLD}, 2),
        (known(1, a=OLD, b=OLD), {"a": OLD, "b": NEW}, 0),
        ({}, {"a": OLD}, 0),
        ({}, {"a": None}, 1),
    ],
    ids=[
        "same file", "same again", "written anew", "another size", "first file", "no file", "removed", "no answer",
        "spare with another mount", "spare sees a new file", "host with the newest is lost", "one of two hosts",
        "start unknown", "start unknown and no file",
    ],
)  # fmt: skip
def test_attempts_without_progress_are_counted(before: dict[str, Any], after: dict[str, Any], idle: int) -> None:
    assert attempt_progress.after_attempt(before, after)["idle_attempts"] == idle


LAST = Verdict("rank_failed", "rank 0 on a failed first", 75, rank=0, host="a", hint="theirs")
PLAN = plan(host(shared=shared()), source="/code", progress="ckpt/*.pt")


@pytest.mark.parametrize("idle", [0, 1])
def test_one_attempt_may_end_before_its_first_checkpoint(idle: int) -> None:
    progress = known(idle, a={**OLD, "written": 0.0})
    assert attempt_progress.verdict_without_progress(progress, LAST, PLAN, "night") is None


def test_the_verdict_names_the_file_its_age_and_what_to_do() -> None:
    row = {**OLD, "written": time.time() - 3720}
    verdict = attempt_progress.verdict_without_progress(known(2, a=row, b=None), LAST, PLAN, "night")
    assert verdict is not None
    assert (verdict.kind, verdict.exit_code, verdict.rank, verdict.host) == ("no_progress", 75, 0, "a")
    assert verdict.message == (
        "2 attempts in a row made no progress: the newest file of ddp_job_progress is still /shared/c.pt on a "
        "(9 bytes, written 1 h 2 min ago); the last one: rank 0 on a failed first"
    )
    assert "ddp-play logs night --attempt N" in verdict.hint


def test_the_verdict_names_the_pattern_where_there_is_no_file() -> None:
    verdict = attempt_progress.verdict_without_progress(known(3, a=None), LAST, PLAN, "night")
    assert verdict is not None
    assert "3 attempts" in verdict.message
    assert "no host has a file that matches /shared/.ddp-play/<run_key>/src/ckpt/*.pt" in verdict.message


@pytest.mark.parametrize(("age_s", "written"), [(3720.0, 6280.0), (0.0, 10000.0), (None, 10000.0), ("60", 9940.0)])
def test_a_file_has_its_time_by_the_controllers_clock(
    monkeypatch: pytest.MonkeyPatch, age_s: Any, written: float
) -> None:
    monkeypatch.setattr("ddp_play.run.attempt_progress.time.time", lambda: 10000.0)
    told = {**OLD, "age_s": age_s, "more": 1}
    assert attempt_progress._row(told) == {"path": "/shared/c.pt", "mtime_ns": 5, "size": 9, "written": written}
    del told["age_s"]
    assert (attempt_progress._row(told) or {})["written"] == 10000.0
    assert attempt_progress._row(None) is None


def test_a_file_of_the_future_is_0_seconds_old_and_the_newest_of_all_is_named() -> None:
    row = {**OLD, "written": time.time() + 60}
    newer = {**NEW, "path": "/shared/d.pt", "written": time.time() + 60}
    verdict = attempt_progress.verdict_without_progress(known(2, a=row, b=newer, c=None), LAST, PLAN, "night")
    assert "/shared/d.pt on b (9 bytes, written 0 s ago)" in (verdict or LAST).message


# -- over fake hosts -----------------------------------------------------------------------------------


def killed_in(stage: Stage, *attempts: int) -> None:
    """Rank 0 is killed in these attempts and ends well in the next; the other host follows."""
    last = max(attempts)
    by_attempt(stage, "h1", **{f"a{number}": KILLED for number in attempts}, **{f"a{last + 1}": OK})
    ends_when_told(stage, "h2")

    def follow(_header: Header, _payload: bytes) -> list[bytes]:
        ends = int(stage.far["h2"].order("open")["attempt"]) > last
        return [state(stage, "h2", **(OK if ends else {"state": "running"}))]

    stage.far["h2"].answers["follow"] = follow


def sees(stage: Stage, *rows: dict[str, Any] | None) -> None:
    """What the hosts answer: at the start, and after each attempt."""
    for name in ("h1", "h2"):
        left = list(rows)
        stage.far[name].answers["progress"] = lambda *_, left=left: [encode("progressed", newest=left.pop(0))]


@pytest.fixture
def named(staged: Make) -> Stage:
    """Two hosts with three restarts and a progress file."""
    return staged(2, restarts=3, progress="/shared/c.pt")


def test_two_attempts_without_a_new_file_end_the_run(named: Stage) -> None:
    killed_in(named, 1, 2, 3)
    sees(named, OLD, OLD, OLD)
    outcome = named.supervisor().run()
    assert outcome.status is RunStatus.FAILED
    assert (outcome.verdict.kind, outcome.verdict.exit_code) == ("no_progress", 137)
    document = named.document
    assert (document["exit_class"], document["exit_code"], document["attempt"]) == ("no_progress", 137, 2)
    assert [row["reason"] for row in document["attempts"]] == ["rank 0 on h1 was killed from outside", "no progress"]
    assert [row["verdict"] for row in document["attempts"]] == ["rank_failed", "rank_failed"]
    assert document["progress"]["idle_attempts"] == 2
    assert named.events("warning") == [], "the verdict says it"
    assert named.far["h1"].order("clean")["run_paths"], "nothing follows, so nothing is kept"


def test_a_new_file_starts_the_count_again(named: Stage) -> None:
    killed_in(named, 1, 2, 3)
    sees(named, OLD, OLD, NEW, NEW)
    outcome = named.supervisor().run()
    assert outcome.status is RunStatus.SUCCEEDED
    assert named.document["attempt"] == 4


def test_what_a_lost_host_said_before_the_attempt_is_not_its_answer(named: Stage) -> None:
    """It would count as seen, and unchanged."""
    sees(named, OLD, NEW)
    supervisor = Supervisor(named.supervisor().assignment, StopRequests(named.paths), Presence())
    gang = supervisor.gang
    gang.open_all(deadline_s=20)
    assert set(attempt_progress.read_newest(gang, supervisor.plan)) == {"h1", "h2"}
    gang.link("h2").lost = "no answer"
    assert set(attempt_progress.read_newest(gang, supervisor.plan)) == {"h1"}


def test_a_host_that_cannot_tell_ends_no_run(named: Stage) -> None:
    killed_in(named, 1, 2, 3)
    for name in ("h1", "h2"):
        named.far[name].answers["progress"] = refusal("progress", "Stale file handle")
    assert named.supervisor().run().status is RunStatus.SUCCEEDED


def test_a_job_that_names_nothing_is_not_asked(staged: Make) -> None:
    stage = staged(2, restarts=3)
    killed_in(stage, 1, 2, 3)
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert "progress" not in stage.far["h1"].kinds()
    assert "progress" not in stage.document


def test_a_taken_over_run_goes_on_counting(named: Stage) -> None:
    """The count is in run.json, not in the process that died."""
    killed_in(named, 1, 2)
    sees(named, OLD)
    named.supervisor().bundle.update_run(progress=known(1, h1=OLD, h2=OLD))
    for name in ("h1", "h2"):
        named.far[name].answers["prepare"] = [encode("prepared")]
    outcome = named.supervisor(attempt=2, num_ended=1).run()
    assert outcome.verdict.kind == "no_progress"
