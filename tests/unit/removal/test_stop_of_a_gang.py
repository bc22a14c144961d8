"""Decisions of the supervisor when a gang stops: who gets the stop, how long it waits, and what it keeps as reason."""

from __future__ import annotations

import functools
import time
from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_json
from ddp_play.guard.protocol import PROTOCOL, encode
from ddp_play.run import lost_hosts, supervisor
from ddp_play.run.restart_decision import Ended, next_step
from ddp_play.testing import refusal
from tests.unit.run.conftest import OK, Make, Stage, done, make

__all__ = ["make"]


def request(stage: Stage, name: str, reason: str) -> None:
    """The file of a stop request; `name`: stop or stop-now."""
    write_json(stage.paths.control / name, {"reason": reason})


def test_ranks_that_survive_a_stop_are_not_waited_for_for_ever(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before the grace period and the time to report are over, and the failure stays the reason."""
    monkeypatch.setattr(lost_hosts, "STOP_SLACK_S", 0.5)
    stage = make(2, failure_grace="1s")
    done(stage, "h1", exit_code=7)
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].answers["stop"] = [encode("stopping")]
    told: list[float] = []

    def drain(*_: Any) -> list[bytes]:
        told.append(time.time())
        return [encode("drained", counters={})]

    stage.far["h1"].answers["drain"] = drain
    outcome = stage.supervisor().run()
    assert (outcome.verdict.rank, outcome.verdict.exit_code) == (0, 7)
    assert [(row.state, row.detail) for row in outcome.ranks][1] == (
        "lost",
        "its ranks did not end after the stop signal",
    )
    (stopped,) = stage.events("stop")
    assert stopped["grace_s"] == 1.0
    assert 1.4 < told[0] - stopped["time"] < 8
    assert stage.far["h2"].kinds().count("stop") == 1
    assert len([event for event in stage.events("host") if event["state"] == "lost"]) == 1


def test_a_host_that_missed_the_stop_gets_it_when_it_is_back(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.run.host_links.RECONNECT_S", 0.0)
    stage = make(2, failure_grace="30s")
    done(stage, "h1", exit_code=7)
    stage.ends_on_stop("h2")
    ends = stage.far["h2"].answers["stop"]

    def stop(header: Any, payload: bytes) -> list[bytes]:
        if len(stage.far["h2"].channels) > 1:
            assert callable(ends)
            return ends(header, payload)
        stage.far["h2"].channels[0].cut("Connection reset by peer")
        return []

    stage.far["h2"].answers["stop"] = stop
    outcome = stage.supervisor().run()
    assert (outcome.verdict.rank, outcome.verdict.collateral) == (0, (1,))
    assert stage.far["h2"].kinds().count("stop") == 2
    assert [(event["host"], event["state"]) for event in stage.events("host")] == [("h2", "silent"), ("h2", "back")]


def test_stop_now_after_a_stop_takes_the_grace_period_away(make: Make) -> None:
    stage = make(1, network="", grace="60s")
    stage.ends_on_stop("h1")
    ends = stage.far["h1"].answers["stop"]

    def go(*_: Any) -> list[bytes]:
        request(stage, "stop", "stopped")
        return [encode("going")]

    def stop(header: Any, payload: bytes) -> list[bytes]:
        if header["now"]:
            assert callable(ends)
            return ends(header, payload)
        request(stage, "stop", "stopped now")
        request(stage, "stop-now", "stopped now")
        return [encode("stopping")]

    stage.far["h1"].answers.update(go=go, stop=stop)
    outcome = stage.supervisor().run()
    assert (outcome.status, outcome.verdict.message) == (RunStatus.STOPPED, "stopped now")
    assert [(event["now"], event["grace_s"]) for event in stage.events("stop")] == [(False, 60.0), (True, 0.0)]


def test_a_stop_request_does_not_hide_that_the_start_signal_was_missing(make: Make) -> None:
    stage = make(2, grace="5s")
    for name in ("h1", "h2"):
        stage.state(name, "prepared", state="created")
        stage.far[name].answers["follow"] = []
    request(stage, "stop", "changed my mind")
    request(stage, "stop-now", "changed my mind")
    row = {"state": "exited", "exit_code": None, "stopped": True, "detail": "stopped before it started"}

    def stop(name: str, header: Any, _payload: bytes) -> list[bytes]:
        ended = stage.state(name, "ended", reason="stopped before it started", **row)
        return [encode("stopping"), *([ended] if header["now"] else [])]

    for name in ("h1", "h2"):
        stage.far[name].answers["stop"] = functools.partial(stop, name)
    outcome = stage.supervisor().take_over()
    assert (outcome.status, outcome.verdict.kind) == (RunStatus.FAILED, "lease")
    assert [event["why"] for event in stage.events("stop")] == ["lease", "stopped"]


def test_a_run_that_was_taken_over_names_the_version_that_writes_it_now(make: Make) -> None:
    stage = make(1, network="")
    assert "protocol" not in stage.document
    stage.state("h1", "running")
    stage.far["h1"].answers["follow"] = lambda *_: [stage.state("h1", "ended", **OK)]
    assert stage.supervisor().take_over().status is RunStatus.SUCCEEDED
    assert stage.document["protocol"] == PROTOCOL


def test_a_run_status_tells_that_its_ranks_are_being_stopped(make: Make) -> None:
    stage = make(2)
    done(stage, "h1", exit_code=7)
    stage.ends_on_stop("h2")
    ends = stage.far["h2"].answers["stop"]
    seen: list[str] = []

    def stop(header: Any, payload: bytes) -> list[bytes]:
        seen.append(stage.document["status"])
        assert callable(ends)
        return ends(header, payload)

    stage.far["h2"].answers["stop"] = stop
    stage.supervisor().run()
    assert seen == ["stopping"]
    assert stage.document["ended"] == pytest.approx(time.time(), abs=60)
    assert not (stage.paths.root / ".reserve").exists(), "a finished bundle has none"


def test_a_host_that_sends_pieces_beyond_the_end_for_ever_is_given_up(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MAX_GAPS", 3)
    monkeypatch.setattr("ddp_play.run.controller_disk_full.FOLLOW_AGAIN_S", 0.0)
    stage = make(1, network="")
    stage.on_follow("h1", encode("log", b"x", rank=0, at=100), stage.state("h1", "running"))
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "host_lost"
    assert "it sent 4 pieces beyond the end of a file" in outcome.verdict.message
    assert stage.far["h1"].kinds().count("follow") == 4


def test_what_the_decision_about_a_restart_gets_to_know(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of the attempt among those that ran, the hosts that are lost, and logs that were not read."""
    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.1)
    stage = make(3, host_timeout=1.5, failure_grace="1s")
    stage.on_follow("h1", stage.state("h1", "running"))
    stage.far["h1"].answers["beat"] = []
    for name in ("h2", "h3"):
        stage.ends_on_stop(name)
    stage.far["h3"].answers["drain"] = refusal("drain", "Input/output error")
    known: list[Ended] = []

    def decide(ended: Ended, *more: Any) -> Any:
        known.append(ended)
        return next_step(ended, *more)

    monkeypatch.setattr("ddp_play.run.restart_choice.next_step", decide)
    stage.supervisor(num_ended=2).run()
    (ended,) = known
    assert ended.ordinal == 3
    assert list(ended.unreachable) == ["h1"]
    assert ended.unreachable["h1"].startswith("silent for")
    assert [row["host"] for row in ended.undrained] == ["h3"]
    assert not ended.disk_full
