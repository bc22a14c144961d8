"""One attempt over fake hosts: the order of steps, all kinds of ends, take-over, and a full disk."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle import writer
from ddp_play.bundle.disk_space import DiskSpace
from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.bundle.paths import write_json
from ddp_play.errors import Interrupted, UsageError
from ddp_play.guard.protocol import encode
from ddp_play.run import judged_outcome
from ddp_play.testing import FakeHost
from tests.unit.run.conftest import OK, Make, done
from tests.unit.run.test_restart_loop import KILLED, attempts_opened, by_attempt, ends_when_told, staged

__all__ = ["staged"]


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


def test_a_run_is_taken_over_from_the_states_of_its_hosts(make: Make) -> None:
    stage = make(2)
    stage.paths.log(0).write_bytes(b"first ")
    for name in ("h1", "h2"):
        stage.state(name, "running")
    stage.far["h1"].answers["follow"] = lambda header, _: [
        encode("log", b"second", rank=0, at=header["logs"]["0"]),
        stage.state("h1", "ended", **OK),
    ]
    stage.on_follow("h2", encode("state", state={**stage.far["h2"].state}))
    stage.far["h2"].answers["follow"] = lambda *_: [stage.state("h2", "ended", **OK)]
    assert stage.supervisor().take_over().status is RunStatus.SUCCEEDED
    assert stage.paths.log(0).read_bytes() == b"first second"
    assert "prepare" not in stage.far["h1"].kinds()


def test_a_run_that_no_host_knows_cannot_be_taken_over(make: Make) -> None:
    with pytest.raises(UsageError, match="no host knows run calm-otter-1"):
        make(2).supervisor().take_over()


def test_a_run_whose_start_signal_never_came_ends(make: Make) -> None:
    """Its guards have ended; attach must not wait for ranks that were never started."""
    stage = make(2)
    row = {"state": "exited", "exit_code": None, "stopped": True, "detail": "no start signal came", "started": None}
    for name in ("h1", "h2"):
        stage.far[name].answers["follow"] = [stage.state(name, "ended", reason="no start signal came", **row)]
    outcome = stage.supervisor().take_over()
    assert outcome.status is RunStatus.FAILED
    assert outcome.verdict.message == "rank 0 on h1 was ended: no start signal came"


def test_guards_that_wait_for_the_start_signal_are_ended(make: Make) -> None:
    """Heartbeats of the new supervisor kept them waiting, with their slots, for ever."""
    stage = make(2)
    for name in ("h1", "h2"):
        stage.state(name, "prepared", state="created")

        def stop(_header: Any, _payload: bytes, name: str = name) -> list[bytes]:
            row = {"state": "exited", "exit_code": None, "stopped": True, "detail": "stopped before it started"}
            return [encode("stopping"), stage.state(name, "ended", reason="stopped before it started", **row)]

        stage.far[name].answers |= {"follow": [], "stop": stop}
    outcome = stage.supervisor().take_over()
    assert (outcome.status, outcome.verdict.kind) == (RunStatus.FAILED, "lease")
    assert outcome.verdict.message.startswith("the controller died before all hosts had the start signal")


def test_a_host_that_was_cleaned_already_is_not_waited_for(make: Make) -> None:
    """The controller was killed while it cleaned up after an attempt that nobody had judged."""
    stage = make(2, host_timeout=0.5)
    stage.state("h2", "ended", **OK)
    stage.on_follow("h2", stage.state("h2", "ended", **OK))
    stage.on_follow("h1")
    outcome = stage.supervisor().take_over()
    assert outcome.verdict.kind == "host_lost"
    assert "the host has no files of this attempt any more" in outcome.verdict.message


@pytest.mark.parametrize("known", [["h2"], []], ids=["one host is clean", "all hosts are clean"])
def test_the_verdict_survives_a_controller_that_dies_while_it_cleans_up(make: Make, known: list[str]) -> None:
    """A run that had succeeded hung in attach, or ended as unknown to all hosts."""
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)

    def die(_header: Any, _payload: bytes) -> list[bytes]:
        raise KeyboardInterrupt

    stage.far["h1"].answers["clean"] = die
    with pytest.raises(KeyboardInterrupt):
        stage.supervisor().run()
    assert stage.document["status"] == "collecting"
    del stage.far["h1"].answers["clean"]
    for name in ("h1", "h2"):
        stage.far[name].state = {}
        stage.on_follow(name)
    for name in known:
        stage.state(name, "ended", **OK)
    outcome = stage.supervisor().take_over()
    assert outcome.status is RunStatus.SUCCEEDED
    assert [row.exit_code for row in outcome.ranks] == [0, 0]
    assert stage.document["status"] == "succeeded"
    assert not stage.paths.outcome.exists()


def test_an_attempt_whose_verdict_was_stored_is_not_counted_again_as_one_without_progress(
    staged: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged(2)
    counted: list[Any] = []
    monkeypatch.setattr("ddp_play.run.restart_loop.attempt_progress.note_end", lambda *row: counted.append(row))
    for name in ("h1", "h2"):
        stage.state(name, "ended", **KILLED)
        by_attempt(stage, name, a1=[], a2=OK)
    ranks = (RankOutcome(0, "h1", "exited", exit_code=137, signal=9), RankOutcome(1, "h2", "exited", exit_code=143))
    verdict = Verdict("rank_failed", "rank 0 on h1 failed first", 137, rank=0, host="h1")
    judged_outcome.store(stage.paths, 1, Outcome(RunStatus.FAILED, verdict, ranks))
    assert stage.supervisor().take_over().status is RunStatus.SUCCEEDED
    assert stage.document["attempt"] == 2
    assert counted == []


def test_ranks_of_a_host_that_is_back_are_stopped_before_their_files_are_collected(make: Make) -> None:
    """The verdict was known when the controller died: it was lost then. Cleaning gave its ranks 5 s."""
    stage = make(2)
    done(stage, "h1")
    stage.state("h1", "ended", **OK)
    stage.ends_on_stop("h2")
    judged_outcome.store(stage.paths, 1, Outcome(RunStatus.FAILED, Verdict("host_lost", "host h2 was lost", 69)))
    outcome = stage.supervisor().take_over()
    assert outcome.verdict.message == "host h2 was lost"
    kinds = stage.far["h2"].kinds()
    assert kinds.index("stop") < kinds.index("drain") < kinds.index("fetch") < kinds.index("clean")


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
