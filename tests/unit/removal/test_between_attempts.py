"""Decisions of the restart loop between and after attempts: what run.json says meanwhile, and what is left on hosts."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_json
from ddp_play.errors import HostNotReady, InternalError, Interrupted
from ddp_play.run.restart_choice import replan_input
from ddp_play.testing import refusal
from tests.unit.run.conftest import KILLED, OK, SHARED, Make, attempts_opened, by_attempt, ends_when_told, make, staged

__all__ = ["make", "staged"]


def test_a_run_that_waits_for_a_lost_host_says_so(staged: Make) -> None:
    stage = staged(2, 1, host_timeout=0.6)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    by_attempt(stage, "h3", a2=OK)
    loop = stage.supervisor()
    emit = loop.journal.emit
    seen: list[tuple[str, list[str]]] = []

    def on_event(kind: str, **fields: Any) -> None:
        emit(kind, **fields)
        if kind == "waiting":
            seen.append((stage.document["status"], fields["for_hosts"]))

    loop.journal.emit = on_event  # type: ignore[method-assign]
    assert loop.run().status is RunStatus.SUCCEEDED
    assert seen == [("waiting", ["h2"])]
    (restart,) = stage.events("restart")
    assert (restart["hosts"], restart["new"], list(restart["retired"])) == (["h1", "h3"], ["h3"], ["h2"])
    (row,) = [row for row in stage.document["attempts"] if row["attempt"] == 1]
    assert (row["hosts"], row["fault"], row["started"] <= row["ended"]) == (["h1", "h2"], "h2", True)


@pytest.mark.parametrize("attempt", [1, 2])
def test_an_error_of_the_controller_names_the_directory_that_earlier_attempts_share(staged: Make, attempt: int) -> None:
    """Their checkpoints are there, and nobody knows whether ranks of the last attempt still write."""
    stage = staged(2)
    by_attempt(stage, "h1", a1=KILLED)
    ends_when_told(stage, "h2")
    follow = stage.far["h1"].answers["follow"]

    def broken(header: Any, payload: bytes) -> list[bytes]:
        if stage.far["h1"].order("open")["attempt"] == attempt:
            raise OSError(5, "Input/output error")
        assert callable(follow)
        return follow(header, payload)

    stage.far["h1"].answers["follow"] = broken
    with pytest.raises(OSError, match="Input/output error"):
        stage.supervisor().run()
    left = stage.document.get("left_behind") or {}
    assert list(left) == ([] if attempt == 1 else ["h1"]), "a first attempt shares nothing with earlier ones"
    for row in left.get("h1", ()):
        assert row.startswith(f"{SHARED}: not collected because of an error on the controller: OSError(5")


def test_a_run_without_another_restart_says_why_and_keeps_no_archive_of_its_source(staged: Make) -> None:
    stage = staged(2)
    by_attempt(stage, "h1", a1=KILLED, a2=KILLED)
    stage.ends_on_stop("h2")
    stage.paths.source_archive.write_bytes(b"archive")
    assert stage.supervisor().run().status is RunStatus.FAILED
    assert [event["message"] for event in stage.events("warning")] == [
        "no restart: attempt 2 of 2: ddp_job_restarts is 1"
    ]
    assert not stage.paths.source_archive.exists()
    assert [row["attempt"] for row in stage.document["attempts"]] == [1, 2]


def test_a_host_that_refuses_the_first_attempt_ends_the_run_and_takes_no_spare(staged: Make) -> None:
    """Spares are for hosts that are lost during the run; the user can mend the inventory before it."""
    stage = staged(2, 1)
    stage.far["h2"].answers["prepare"] = refusal("prepare", "no space left on device")
    with pytest.raises(HostNotReady, match="h2: no space left on device"):
        stage.supervisor().run()
    assert attempts_opened(stage, "h3") == []
    assert stage.events("retired") == []


def test_each_spare_that_refuses_is_retired_with_its_own_reason(staged: Make) -> None:
    stage = staged(3, 4, host_timeout=0.6)
    ends_when_told(stage, "h1")
    for name in ("h2", "h3"):
        by_attempt(stage, name, a1={"state": "running"})
        stage.far[name].answers["beat"] = []
    stage.far["h4"].answers["prepare"] = refusal("prepare", "disk full")
    stage.far["h5"].answers["prepare"] = refusal("prepare", "image missing")
    for name in ("h6", "h7"):
        by_attempt(stage, name, a3=OK)
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert stage.events("retired")[0]["hosts"] == {"h4": "disk full", "h5": "image missing"}


@pytest.mark.parametrize("why", ["stopped", "internal"])
def test_no_other_spare_is_tried_after_a_stop_request_or_an_error_of_ours(staged: Make, why: str) -> None:
    """An error of this program would be the same on every host."""
    stage = staged(2, 2, host_timeout=0.6)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    by_attempt(stage, "h4", a3=OK)

    def refuse(*_: Any) -> list[bytes]:
        if why == "stopped":
            write_json(stage.paths.control / "stop", {"reason": "enough"})
        return refusal("prepare", "refused", error="internal" if why == "internal" else "host_not_ready")

    stage.far["h3"].answers["prepare"] = refuse
    with pytest.raises((HostNotReady, Interrupted, InternalError)):
        stage.supervisor().run()
    assert attempts_opened(stage, "h4") == []
    assert stage.events("retired") == []


def test_a_spare_that_does_not_answer_is_retired_with_its_own_reason(staged: Make) -> None:
    stage = staged(2, 2, host_timeout=0.6)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []

    def cut(*_: Any) -> list[bytes]:
        stage.far["h3"].channels[-1].cut("no route to host")
        return []

    stage.far["h3"].answers["open"] = cut
    for name in ("h1", "h4"):
        by_attempt(stage, name, a1={"state": "running"}, a2=OK, a3=OK)
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert [event["hosts"] for event in stage.events("retired")] == [{"h3": "no route to host"}]


def test_a_run_that_went_on_with_fewer_hosts_wants_the_number_of_its_first_attempt(staged: Make) -> None:
    """After a take-over: a spare that refused a restart may be ready now."""
    stage = staged(2, 1)
    rows = [
        {"attempt": 1, "hosts": ["h1", "h2", "h4"], "retired": {"h4": "lost"}, "fault": "h4"},
        {"attempt": 2, "hosts": ["h1", "h2"], "retired": {}, "fault": ""},
    ]
    write_json(stage.paths.run, {**stage.document, "attempts": rows})
    loop = stage.supervisor(attempt=3)
    known = replan_input(loop.assignment, loop.history, {})
    assert (known.wanted, known.retired) == (3, {"h4": "lost"})
