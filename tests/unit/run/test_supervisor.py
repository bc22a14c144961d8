"""Carrying out a plan over fake hosts: the order of things, ends of all kinds, and what stays behind."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_json
from ddp_play.errors import Interrupted
from ddp_play.guard.protocol import encode
from tests.unit.run.conftest import OK, Make, done


def test_the_whole_way(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name, b"hello \xff\n")
    outcome = stage.supervisor().run()
    assert outcome.status is RunStatus.SUCCEEDED
    assert stage.far["h1"].kinds() == [
        *("open", "claim", "lease_port", "prepare", "go", "follow"),
        *("drain", "fetch", "clean", "bye"),
    ]
    assert stage.far["h2"].kinds() == ["open", "claim", "prepare", "go", "follow", "drain", "fetch", "clean", "bye"]
    assert stage.paths.log(1).read_bytes() == b"hello \xff\n"
    assert [event["phase"] for event in stage.events("phase")] == ["preparing", "running", "collecting"]
    assert (stage.document["status"], stage.document["exit_code"], stage.document["head_port"]) == (
        "succeeded",
        0,
        29500,
    )
    assert {rank["state"] for rank in stage.document["ranks"]} == {"exited"}


def test_the_first_failure_ends_the_gang(make: Make) -> None:
    stage = make(2)
    done(stage, "h1", b"ValueError: nan\n", exit_code=7)
    stage.ends_on_stop("h2")
    outcome = stage.supervisor().run()
    assert (outcome.status, outcome.verdict.exit_code) == (RunStatus.FAILED, 7)
    assert (outcome.verdict.rank, outcome.verdict.host, outcome.verdict.collateral) == (0, "h1", (1,))
    assert outcome.verdict.tail == ("ValueError: nan",)
    assert stage.far["h2"].order("stop")["grace_s"] == 2.0
    assert [event["how"] for event in stage.events("rank") if event["state"] == "exited"] == [
        "exit code 7",
        "signal 15 (SIGTERM)",
    ]


def test_a_stop_on_request_uses_the_jobs_signal_and_grace(make: Make) -> None:
    stage = make(2, signal="USR1", grace="90s")
    for name in ("h1", "h2"):
        stage.ends_on_stop(name, exit_code=0, signal=None)
    supervisor = stage.supervisor()
    go = stage.far["h1"].answers

    def ordered(*_: Any) -> list[bytes]:
        write_json(stage.paths.control / "stop", {"reason": "stopped with ddp-play stop"})
        return [encode("going")]

    go["go"] = ordered
    outcome = supervisor.run()
    assert (outcome.status, outcome.verdict.exit_code) == (RunStatus.STOPPED, 130)
    assert outcome.verdict.message == "stopped with ddp-play stop"
    order = stage.far["h2"].order("stop")
    assert (order["signal"], order["grace_s"], order["now"]) == ("SIGUSR1", 90.0, False)


def test_stop_now_after_a_failure_is_ordered_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was ordered again in every turn, and each time the deadline for the hosts moved on."""
    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.3)
    stage = make(2, failure_grace="60s")
    done(stage, "h1", exit_code=7)
    stage.ends_on_stop("h2")
    end = stage.far["h2"].answers["stop"]
    stops: list[bool] = []
    beats_after: list[int] = []

    def stop(header: Any, _payload: bytes) -> list[bytes]:
        stops.append(header["now"])
        write_json(stage.paths.control / "stop-now", {"reason": "now"})
        return [encode("stopping")]

    def beat(header: Any, payload: bytes) -> list[bytes]:
        """The ranks end some turns after the second order."""
        beats_after.extend([1] if True in stops else [])
        ends = end(header, payload) if len(beats_after) == 2 and callable(end) else []
        return [encode("beat", guard_gone=False), *ends]

    stage.far["h2"].answers.update(stop=stop, beat=beat)
    outcome = stage.supervisor().run()
    assert stops == [False, True]
    assert outcome.verdict.rank == 0, "the failure stays the reason"


def test_an_order_before_the_start_starts_nothing(make: Make) -> None:
    stage = make(2)
    write_json(stage.paths.control / "stop", {"reason": "changed my mind"})
    with pytest.raises(Interrupted, match="stopped before it started"):
        stage.supervisor().run()
    assert "prepare" not in stage.far["h1"].kinds()
    assert "clean" not in stage.far["h1"].kinds(), "nothing of it is there"


def test_a_broken_line_is_opened_again_and_takes_up_where_the_log_is(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.run.host_links.RECONNECT_S", 0.0)
    stage = make(1, network="")
    host = stage.far["h1"]
    follows = iter([b"first ", b"second"])

    def follow(header: Any, _payload: bytes) -> list[bytes]:
        at, text = header["logs"]["0"], next(follows)
        frames = [encode("log", text, rank=0, at=at)]
        if text == b"second":
            return [*frames, stage.state("h1", "ended", **OK)]
        return [*frames, stage.state("h1", "running")]

    def beat(_header: Any, _payload: bytes) -> list[bytes]:
        if len(host.channels) == 1 and "follow" in host.kinds():
            host.channels[0].cut("Connection reset by peer")
        return [encode("beat", guard_gone=False)]

    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.0)
    host.answers.update(follow=follow, beat=beat)
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert stage.paths.log(0).read_bytes() == b"first second"
    assert "ControlPath=none" in stage.far.routes[1].argv, "not through the shared master that may hang"
    assert [event["state"] for event in stage.events("host")] == ["silent", "back"]


@pytest.mark.parametrize(
    ("limits", "reason", "kind"),
    [
        ({"max_duration": "1h"}, "max_duration reached", "max_duration"),
        ({"lease": "1h"}, "no controller for longer than the lease", "lease"),
    ],
)
def test_a_guards_own_limit_is_the_gangs_reason(make: Make, limits: dict[str, str], reason: str, kind: str) -> None:
    stage = make(2, **limits)
    for name in ("h1", "h2"):
        row = {"state": "exited", "exit_code": 143, "signal": 15, "stopped": True, "ended": 2.0}
        stage.on_follow(name, stage.state(name, "ended", reason=reason, **row))
        stage.far[name].state = {}
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.exit_code) == (kind, 124)


def test_idle_ranks_are_ended(make: Make) -> None:
    stage = make(2, idle_timeout=0.3, timeout=0.3)
    for name in ("h1", "h2"):
        stage.ends_on_stop(name)
        seen = {"state": "T" if name == "h2" else "S", "cpu": 0.0}
        rank = stage.far[name].name.removeprefix("h")
        stage.far[name].answers["capture"] = [
            encode("file", b"what /proc had", file="proc", rank=int(rank) - 1, last=True),
            encode("captured", ranks={str(int(rank) - 1): seen}),
        ]
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.exit_code) == ("idle", 124)
    assert outcome.verdict.message.endswith("rank 0 gave no Python stack (state S); rank 1 is stopped by a signal")
    assert stage.paths.evidence(1, "proc").read_bytes() == b"what /proc had"
    for name in ("h1", "h2"):  # looked at before it is ended, and asked for its stacks
        assert stage.far[name].kinds().index("capture") < stage.far[name].kinds().index("stop")
        assert stage.far[name].order("stop")["signal"] == "SIGABRT"
