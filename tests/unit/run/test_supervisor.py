"""Carrying out a plan over fake hosts: the order of things, ends of all kinds, and what stays behind."""

from __future__ import annotations

import base64
import time
from typing import Any

import pytest

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import write_json
from ddp_play.errors import Busy, HostNotReady, Interrupted
from ddp_play.guard.protocol import encode
from ddp_play.run.source_snapshot import Snapshot
from ddp_play.testing import refusal
from tests.unit.build import shared
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


def test_nobody_starts_before_all_are_prepared(make: Make) -> None:
    stage = make(3)
    stage.far["h3"].answers["prepare"] = refusal("prepare", "image is not on this host", hint="load it")
    with pytest.raises(HostNotReady, match="h3: image is not on this host") as caught:
        stage.supervisor().run()
    assert caught.value.hint == "load it"
    for host in stage.far.values():
        assert "go" not in host.kinds()
        assert host.kinds()[-2:] == ["clean", "bye"]


def test_all_refusals_are_told_together(make: Make) -> None:
    stage = make(3)
    for name in ("h1", "h3"):
        stage.far[name].answers["prepare"] = refusal("prepare", f"{name} is full")
    with pytest.raises(HostNotReady) as caught:
        stage.supervisor().run()
    assert caught.value.message == "h1: h1 is full\nh3: h3 is full"


def test_a_port_that_was_taken_is_leased_again(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    ports = iter([29500, 29501])
    stage.far["h1"].answers["lease_port"] = lambda *_: [encode("leased", port=next(ports))]
    answers = iter([refusal("prepare", "lease taken: port-29500", error="busy"), [encode("prepared", guard_pid=1)]])
    stage.far["h1"].answers["prepare"] = lambda *_: next(answers)
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert stage.far["h1"].order("lease_port")["avoid"] == [29500]
    assert stage.document["head_port"] == 29501
    assert stage.far["h2"].kinds().count("clean") == 2, "the other host started afresh too"


def test_a_port_range_that_stays_taken_is_busy(make: Make) -> None:
    stage = make(1, network="")
    stage.far["h1"].answers["prepare"] = refusal("prepare", "lease taken", error="busy")
    with pytest.raises(Busy, match="h1: lease taken"):
        stage.supervisor().run()
    assert stage.far["h1"].kinds().count("prepare") == 3


def test_no_free_port(make: Make) -> None:
    stage = make(2)
    stage.far["h1"].answers["lease_port"] = refusal(
        "lease_port", "no free port between 29500 and 29999", error="busy", hint="widen ddp_job_port_range"
    )
    with pytest.raises(Busy, match="h1: no free port between 29500 and 29999"):
        stage.supervisor().run()


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
    monkeypatch.setattr("ddp_play.run.gang.BEAT_S", 0.3)
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


def test_a_guard_that_is_gone_is_a_lost_host(make: Make) -> None:
    stage = make(2)
    stage.ends_on_stop("h1")
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].guard_gone = True
    outcome = stage.supervisor().run()
    assert (outcome.verdict.kind, outcome.verdict.host, outcome.verdict.exit_code) == ("host_lost", "h2", 69)
    assert "its guard is gone" in outcome.verdict.message
    assert (outcome.missing, outcome.left) == ((), {}), "the host itself answers: its files come home, it is cleaned"
    assert "clean" in stage.far["h2"].kinds()


def test_a_silent_host_is_lost_after_its_timeout(make: Make) -> None:
    stage = make(2, host_timeout=1.5)
    stage.ends_on_stop("h1")
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].answers["beat"] = []
    outcome = stage.supervisor().run()
    assert outcome.verdict.kind == "host_lost"
    assert "silent for" in outcome.verdict.message
    assert outcome.missing[0]["host"] == "h2"
    assert "gc" in outcome.left["h2"][0]
    assert "clean" not in stage.far["h2"].kinds()


def test_a_broken_line_is_opened_again_and_takes_up_where_the_log_is(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ddp_play.run.gang.RECONNECT_S", 0.0)
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

    monkeypatch.setattr("ddp_play.run.gang.BEAT_S", 0.0)
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


def test_what_could_not_be_fetched_is_listed_and_kept(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    row = {"path": "big.pt", "why": "larger than what is left"}
    stage.far["h2"].answers["fetch"] = [
        encode("file", b"w", file="artifact", path="small.pt", last=False),
        encode("file", b"", file="artifact", path="small.pt", last=True),
        encode("fetched", missing=[row], artifacts=[{"path": "small.pt", "size": 1, "sha256": "x"}]),
    ]
    outcome = stage.supervisor().run()
    assert outcome.missing == ({"host": "h2", **row},)
    assert stage.far["h2"].order("clean")["keep_src"] is True
    assert stage.far["h1"].order("clean")["keep_src"] is False
    assert (stage.paths.artifacts / "h2" / "small.pt").read_bytes() == b"w"


def test_a_host_that_cannot_be_fetched_from_keeps_its_files(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    stage.far["h2"].answers["fetch"] = refusal("fetch", "Input/output error")
    outcome = stage.supervisor().run()
    assert outcome.missing == ({"host": "h2", "path": "results and artifacts", "why": "h2: Input/output error"},)
    assert [stage.far[name].order("clean")["keep_src"] for name in ("h1", "h2")] == [False, True]


def test_what_could_not_be_removed_is_told(make: Make) -> None:
    stage = make(1, network="")
    done(stage, "h1")
    stage.far["h1"].answers["clean"] = [encode("cleaned", left=["container x: engine is down"])]
    stage.supervisor().run()
    assert stage.document["left_behind"] == {"h1": ["container x: engine is down"]}


def test_secrets_go_to_the_hosts_and_nowhere_else(make: Make) -> None:
    stage = make(2)
    for name in ("h1", "h2"):
        done(stage, name)
    given = {"secrets": {"TOKEN": "hunter2"}, "registry": {"password": "hunter3"}, "passwords": {"h1": "hunter4"}}
    stage.supervisor(**given).run()
    assert stage.far["h1"].order("prepare")["secrets"] == {"TOKEN": "hunter2"}
    assert stage.far["h1"].order("prepare")["registry"] == {"password": "hunter3"}
    assert stage.far.passwords == {"h1": "hunter4", "h2": ""}
    written = b"".join(path.read_bytes() for path in stage.paths.root.rglob("*") if path.is_file())
    for secret in (b"hunter", base64.b64encode(b"hunter2")[:6]):
        assert secret not in written


def test_the_source_goes_to_whoever_unpacks_it(make: Make) -> None:
    stage = make(2, source="/code")
    for name in ("h1", "h2"):
        done(stage, name)
    archive = bytes(range(256)) * 2000
    stage.supervisor(snapshot=Snapshot(archive, "d1", {})).run()
    for host in stage.far.values():
        pieces = [payload for header, payload in host.orders if header["t"] == "source"]
        assert b"".join(pieces) == archive
        assert pieces[-1] == b"", "the end is announced"


def test_hosts_that_do_not_reach_each_other_are_named(make: Make) -> None:
    stage = make(2, probe=True)
    bad = {"address": "10.0.0.2", "port": 40000, "problem": "No route to host"}
    stage.far["h2"].answers["probe"] = [encode("probed", failed=[bad])]
    with pytest.raises(
        HostNotReady, match=r"h2 \(10\.0\.0\.3\) does not reach h1 \(10\.0\.0\.2\): No route to host"
    ) as caught:
        stage.supervisor().run()
    assert "firewall" in caught.value.hint
    assert "go" not in stage.far["h1"].kinds()


def test_the_port_where_ranks_meet_is_probed_too(make: Make) -> None:
    stage = make(3, probe=True)
    for name in ("h1", "h2", "h3"):
        done(stage, name)
    port = 29500
    stage.supervisor().run()
    assert [stage.far[name].order("listen")["also"] for name in ("h1", "h2", "h3")] == [port, 0, 0]
    assert ["10.0.0.2", port] in stage.far["h3"].order("probe")["targets"]
    assert ["10.0.0.2", port] not in stage.far["h1"].order("probe")["targets"]
    blocked = {"address": "10.0.0.2", "port": port, "problem": "timed out"}
    stage.far["h2"].answers["probe"] = [encode("probed", failed=[blocked])]
    with pytest.raises(HostNotReady, match=r"does not reach h1 \(10\.0\.0\.2, port 29500 where ranks meet\)"):
        stage.supervisor().run()


def test_ranks_that_meet_in_a_file_need_no_port_and_a_lock(make: Make) -> None:
    stage = make(2, probe=True, init_method="file", facts={"shared": shared()})
    for name in ("h1", "h2"):
        done(stage, name)
    stage.far["h1"].answers.update(hold_lock=[encode("lock_held")], drop_lock=[encode("lock_dropped")])
    stage.far["h2"].answers["see_lock"] = [encode("lock_seen", problem="")]
    stage.supervisor().run()
    assert stage.far["h1"].order("listen")["also"] == 0
    path = "/shared/.ddp-play/calm-otter-1/rendezvous-1.lock"
    assert stage.far["h1"].order("hold_lock")["path"] == stage.far["h2"].order("see_lock")["path"] == path
    stage.far["h2"].answers["see_lock"] = [encode("lock_seen", problem="a lock that another host holds is not seen")]
    with pytest.raises(HostNotReady, match="ranks cannot meet in a file on /shared:\nh2: a lock") as caught:
        stage.supervisor().run()
    assert "nolock" in caught.value.hint


def test_one_host_is_not_probed(make: Make) -> None:
    stage = make(1, probe=True, network="")
    done(stage, "h1")
    stage.supervisor().run()
    assert "probe" not in stage.far["h1"].kinds()


def test_env_files_and_the_hosts_directories_are_in_the_bundle(make: Make) -> None:
    stage = make(2, env={"A": "1"})
    for name in ("h1", "h2"):
        done(stage, name)
    stage.supervisor().run()
    assert stage.document["directories"] == {"h1": "/state/h1", "h2": "/state/h2"}
    text = stage.paths.env(1).read_text()
    assert "\nA=1\n" in text
    assert "\nMASTER_PORT=29500\n" in text
    assert stage.paths.env(1).stat().st_mode & 0o777 == 0o600


def test_our_own_sleep_is_not_the_hosts_silence(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A laptop that was closed for a while: no host is lost because of it."""
    monkeypatch.setattr("ddp_play.run.gang.BEAT_S", 0.05)
    stage = make(2, host_timeout=0.6)
    slept: list[float] = []

    def beat(_header: Any, _payload: bytes) -> list[bytes]:
        if len(slept) == 3:
            time.sleep(1.5)
        slept.append(1.0)
        ends = [stage.state("h2", "ended", **OK)] if len(slept) > 6 else []
        return [encode("beat", guard_gone=False), *ends]

    stage.on_follow("h1", stage.state("h1", "ended", **OK))
    stage.on_follow("h2", stage.state("h2", "running"))
    stage.far["h2"].answers["beat"] = beat
    assert stage.supervisor().run().status is RunStatus.SUCCEEDED
    assert len(slept) > 6
