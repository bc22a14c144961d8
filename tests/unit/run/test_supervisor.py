"""One attempt over fake hosts: the order of steps, all kinds of ends, and a full disk."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle import writer
from ddp_play.bundle.disk_space import DiskSpace
from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_json
from ddp_play.errors import Interrupted
from ddp_play.guard.protocol import encode
from ddp_play.testing import FakeHost
from tests.unit.run.conftest import KILLED, OK, Make, attempts_opened, by_attempt, done, ends_when_told


def test_an_attempt_that_succeeds(make: Make) -> None:
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
    """Repeated orders would move the deadline for the hosts each time."""
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


def test_a_stop_request_before_the_start(make: Make) -> None:
    stage = make(2)
    write_json(stage.paths.control / "stop", {"reason": "changed my mind"})
    with pytest.raises(Interrupted, match="stopped before it started"):
        stage.supervisor().run()
    assert "prepare" not in stage.far["h1"].kinds()
    assert "clean" not in stage.far["h1"].kinds(), "nothing of it is there"


def test_a_broken_channel_is_opened_again_and_continues_the_log(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
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
    for name in ("h1", "h2"):  # captured before SIGABRT, which prints its stacks
        assert stage.far[name].kinds().index("capture") < stage.far[name].kinds().index("stop")
        assert stage.far[name].order("stop")["signal"] == "SIGABRT"


def test_no_attempt_follows_if_the_disk_is_full(staged: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt would clean the hosts, and files that could not be stored would be lost."""
    full: list[bool] = []
    real = writer._append

    def append(path: Path, data: bytes) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    def fetch(_header: Any, _payload: bytes) -> list[bytes]:
        full.append(True)
        return [
            encode("file", b"w", file="artifact", path="small.pt", last=True),
            encode("fetched", missing=[], artifacts=[]),
        ]

    monkeypatch.setattr(writer, "_append", append)
    monkeypatch.setattr(DiskSpace, "recover", lambda _room: False)
    stage = staged(2)
    by_attempt(stage, "h1", a1=KILLED, a2=OK)
    ends_when_told(stage, "h2")
    stage.far["h1"].answers["fetch"] = fetch
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "disk_full"
    assert attempts_opened(stage, "h1") == [1]
    hosts: list[FakeHost] = [stage.far["h1"], stage.far["h2"]]
    assert ["clean" in host.kinds() for host in hosts] == [False, False]
    assert stage.document["status"] == "failed"
    assert set(stage.document["left_behind"]) == {"h1", "h2"}
