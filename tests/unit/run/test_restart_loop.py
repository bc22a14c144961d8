"""Restart loop over fake hosts: hosts of each attempt, archived files, fencing, cleanup."""

from __future__ import annotations

import time
from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.errors import HostNotReady, Interrupted
from ddp_play.guard.protocol import Header, encode
from ddp_play.testing import refusal
from tests.unit.run.conftest import KILLED, OK, SHARED, Make, attempts_opened, by_attempt, ends_when_told


def test_a_killed_rank_starts_the_same_hosts_again(staged: Make) -> None:
    stage = staged(2, 1)
    by_attempt(stage, "h1", a1=KILLED, a2=OK)
    ends_when_told(stage, "h2")
    stage.paths.log(0).write_bytes(b"of the first\n")
    outcome = stage.supervisor().run()
    assert outcome.status is RunStatus.SUCCEEDED
    assert attempts_opened(stage, "h1") == [1, 2]
    assert attempts_opened(stage, "h3") == []
    document = stage.document
    assert (document["status"], document["attempt"], document["hosts"]) == ("succeeded", 2, ["h1", "h2"])
    assert [row["reason"] for row in document["attempts"]] == ["rank 0 on h1 was killed from outside", ""]
    put = stage.paths.attempt(1)
    assert put.log(0).read_bytes() == b"of the first\n"
    assert read_json(put.root / "outcome.json")["verdict"]["rank"] == 0
    assert stage.paths.log(0).read_bytes() == b""


def test_directories_that_attempts_share_are_removed_after_the_last_one(staged: Make) -> None:
    stage = staged(2)
    by_attempt(stage, "h1", a1=KILLED, a2=OK)
    ends_when_told(stage, "h2")
    stage.supervisor().run()
    told = [header["run_paths"] for header, _ in stage.far["h1"].orders if header["t"] == "clean"]
    assert told == [[], [SHARED]]
    fetched = [header["patterns"] for header, _ in stage.far["h1"].orders if header["t"] == "fetch"]
    assert fetched == [[], ["**"]], "the working directory is still at work"


def test_a_spare_replaces_a_lost_host(staged: Make) -> None:
    stage = staged(2, 1, host_timeout=0.6)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    by_attempt(stage, "h3", a2=OK)
    outcome = stage.supervisor().run()
    assert outcome.status is RunStatus.SUCCEEDED
    row = stage.document["attempts"][0]
    assert (row["verdict"], row["fault"], list(row["retired"])) == ("host_lost", "h2", ["h2"])
    assert stage.document["hosts"] == ["h1", "h3"]
    event = stage.events("restart")[0]
    assert (event["attempt"], event["new"]) == (2, ["h3"])


def test_no_attempt_starts_before_the_lease_of_a_lost_host_expires(
    staged: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.run.fencing.FENCE_MARGIN_S", 0.5)
    stage = staged(2, 1, host_timeout=0.6, lease=1.0)
    heard: list[float] = []
    started: list[float] = []
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    beat: list[bytes] = [encode("beat", guard_gone=False, uptime=5.0)]

    def last_beat(_header: Header, _payload: bytes) -> list[bytes]:
        if len(heard) > 2:
            stage.far["h2"].channels[-1].cut("no route to host")
            stage.far["h2"].answers["open"] = []
            return []
        heard.append(time.monotonic())
        return beat

    stage.far["h2"].answers["beat"] = last_beat

    def prepare(_header: Header, _payload: bytes) -> list[bytes]:
        started.append(time.monotonic())
        return [encode("prepared", guard_pid=1)]

    stage.far["h3"].answers["prepare"] = prepare
    by_attempt(stage, "h3", a2=OK)
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    waited = started[0] - heard[-1]
    assert waited >= 1.0 + 0.1 + 0.5, "lease, grace, margin"
    assert stage.document["left_behind"]["h2"]
    assert {header.get("seen") for header, _ in stage.far["h2"].orders if header["t"] == "beat"} >= {5.0}


def test_a_lost_host_that_comes_back_is_cleaned_and_not_waited_for(staged: Make) -> None:
    stage = staged(2, 1, host_timeout=0.6, lease="1h")
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    by_attempt(stage, "h3", a2=OK)
    outcome = stage.supervisor().run()
    assert outcome.status is RunStatus.SUCCEEDED
    assert "clean" in stage.far["h2"].kinds()
    assert outcome.left == {}


def test_a_stop_request_ends_the_wait_for_a_lost_host(staged: Make) -> None:
    stage = staged(2, 1, host_timeout=0.6, lease="1h")
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})

    def silence(_header: Header, _payload: bytes) -> list[bytes]:
        stage.far["h2"].answers["open"] = []
        return []

    stage.far["h2"].answers["beat"] = silence
    attempts = stage.supervisor()
    emit = attempts.journal.emit

    def on_event(kind: str, **fields: Any) -> None:
        emit(kind, **fields)
        if kind == "waiting":
            write_json(stage.paths.control / "stop", {"reason": "enough"})

    attempts.journal.emit = on_event  # type: ignore[method-assign]
    with pytest.raises(Interrupted, match="stopped while it waited for h2"):
        attempts.run()
    assert attempts_opened(stage, "h3") == []
    assert stage.far["h1"].order("clean")["run_paths"] == [], "its ranks may still write there"
    (row,) = stage.document["left_behind"]["h1"]
    assert row.startswith(f"{SHARED}: ranks may still write there from h2")


def test_ranks_that_may_still_run_forbid_another_attempt(staged: Make) -> None:
    """h2 has no guard and its container cannot be removed: no lease ends the rank."""
    stage = staged(2, 1)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].guard_gone = True
    stage.far["h2"].answers["clean"] = [encode("cleaned", left=["container x: engine is down"])]
    with pytest.raises(HostNotReady, match="h2: ranks of attempt 1 may still run there"):
        stage.supervisor().run()
    assert attempts_opened(stage, "h3") == []


def test_a_lost_host_that_returns_with_ranks_forbids_another_attempt(staged: Make) -> None:
    """Its lease would be over in a moment, but its rank survived the kill."""
    stage = staged(2, 1, host_timeout=0.6, lease=60.0)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    stage.far["h2"].answers["clean"] = [encode("cleaned", left=["rank 0: process 12 did not end after SIGKILL"])]
    with pytest.raises(HostNotReady, match="h2: ranks of attempt 1 may still run there"):
        stage.supervisor().run()
    assert attempts_opened(stage, "h3") == []
    assert "h2" in stage.document["left_behind"]


def test_the_same_fault_twice_ends_the_run(staged: Make) -> None:
    stage = staged(2)
    by_attempt(stage, "h1", a1=KILLED, a2=KILLED)
    stage.ends_on_stop("h2")
    outcome = stage.supervisor().run()
    assert (outcome.status, outcome.verdict.exit_code) == (RunStatus.FAILED, 137)
    assert stage.document["attempts"][-1]["reason"] == "attempt 2 of 2: ddp_job_restarts is 1"
    assert len(stage.document["attempts"]) == 2


def test_a_failure_of_the_job_is_not_followed_by_a_restart(staged: Make) -> None:
    stage = staged(2)
    by_attempt(stage, "h1", a1={**OK, "exit_code": 3})
    stage.ends_on_stop("h2")
    assert stage.supervisor().run().verdict.exit_code == 3
    assert attempts_opened(stage, "h1") == [1]
    assert "attempts" not in stage.document


def test_hosts_know_the_age_of_the_run_from_which_gpu_processes_count(staged: Make) -> None:
    stage = staged(1)
    write_json(stage.paths.run, {**stage.document, "created": time.time() - 3600})
    by_attempt(stage, "h1", a1=KILLED, a2=OK)
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    told = stage.far["h1"].order("prepare")["spec"]
    assert told["continues"] is True
    assert 3600 <= told["run_age_s"] < 3700


def test_a_spare_that_refuses_is_passed_over(staged: Make) -> None:
    stage = staged(2, 2, host_timeout=0.6)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    stage.far["h3"].answers["prepare"] = refusal("prepare", "no space left on device")
    by_attempt(stage, "h4", a3=OK)
    outcome = stage.supervisor().run()
    assert outcome.status is RunStatus.SUCCEEDED
    assert stage.document["hosts"] == ["h1", "h4"]
    assert stage.events("retired")[0]["hosts"] == {"h3": "no space left on device"}


def test_no_host_left_ends_the_run_with_the_first_reason(staged: Make) -> None:
    stage = staged(2, host_timeout=0.6)
    ends_when_told(stage, "h1")
    by_attempt(stage, "h2", a1={"state": "running"})
    stage.far["h2"].answers["beat"] = []
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.host) == ("host_lost", "h2")
    assert "too few hosts are left" in stage.document["attempts"][0]["reason"]


@pytest.mark.parametrize("kind", ["secret_names", "secret_env"])
def test_a_take_over_without_the_secrets_starts_no_attempt(staged: Make, kind: str) -> None:
    stage = staged(2)
    data = read_json(stage.paths.fleet)
    write_json(stage.paths.fleet, {**data, kind: ["TOKEN"]})
    by_attempt(stage, "h1", a1=KILLED)
    stage.ends_on_stop("h2")
    assert stage.supervisor().run().verdict.exit_code == 137
    assert "had the values of its secrets" in stage.document["attempts"][0]["reason"]
