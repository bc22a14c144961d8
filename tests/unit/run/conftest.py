"""Fake hosts for tests with the real supervisor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.bundle.journal import read_events
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.engines.route import Route
from ddp_play.guard.protocol import Header, encode
from ddp_play.planning.next_attempt import Fleet
from ddp_play.run.attempt_assignment import Assignment
from ddp_play.run.restart_loop import RestartLoop
from ddp_play.run.run_hooks import RunHooks
from ddp_play.testing import RANK_ROW, FakeHost, FakeHosts
from tests.unit.build import hosts, job, plan, shared
from tests.unit.planning.test_next_attempt import raw

if TYPE_CHECKING:
    from pathlib import Path

    from ddp_play.planning.plan_document import Plan

# Fake hosts report all failures of a moment at once: nothing more would come in a second.
PROMPT = {"settle_s": 0.05, "patience_s": 0.1}
OK: dict[str, Any] = {"state": "exited", "ended": 2.0, "exit_code": 0}
KILLED: dict[str, Any] = {"state": "exited", "ended": 2.0, "exit_code": 137, "signal": 9}
SHARED = "/shared/.ddp-play/calm-otter-1"
CHECKPOINT = [
    encode("file", b"weights", file="artifact", path="checkpoint-1.pt", last=False),
    encode("file", b"", file="artifact", path="checkpoint-1.pt", last=True),
    encode("fetched", missing=[], artifacts=[{"path": "checkpoint-1.pt", "size": 7, "sha256": "x"}]),
]


@dataclass
class Stage:
    """Fake hosts, their plan, and a restart loop for them."""

    plan: Plan
    paths: RunPaths
    far: FakeHosts

    def supervisor(self, **more: Any) -> RestartLoop:
        """The restart loop of a run with this plan."""
        routes = tuple(Route(name, ("ssh", name), "channel") for name in self.far)
        return RestartLoop(Assignment(self.plan, routes, self.paths, **{**PROMPT, **more}))

    def ranks(self, host: str) -> list[int]:
        """The ranks of a host."""
        return [rank for item in self.plan.hosts if item.name == host for rank in item.ranks]

    def on_follow(self, host: str, *frames: bytes) -> None:
        """Set the frames that a host sends in reply to `follow`."""
        self.far[host].answers["follow"] = list(frames)

    def state(self, host: str, phase: str, *, reason: str = "", **row: Any) -> bytes:
        """A state frame with the same row for all ranks of the host; `open` replies with this state too."""
        rows = {str(rank): {**RANK_ROW, **row} for rank in self.ranks(host)}
        state = {"phase": phase, "reason": reason, "guard_pid": 1, "guard_ticks": 1, "ranks": rows}
        self.far[host].state = state
        return encode("state", state=state)

    def ends_on_stop(self, host: str, **row: Any) -> None:
        """The host's ranks run until a stop; `row` is how they end."""
        self.on_follow(host, self.state(host, "running"))
        ended = {"state": "exited", "ended": 3.0, "exit_code": 143, "signal": 15, "stopped": True, **row}

        def stop(_header: Any, _payload: bytes) -> list[bytes]:
            return [encode("stopping"), self.state(host, "ended", reason="stopped", **ended)]

        self.far[host].answers["stop"] = stop

    @property
    def document(self) -> dict[str, Any]:
        """run.json."""
        return read_json(self.paths.run)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Events of one type."""
        return [event for event in read_events(self.paths.events) if event["type"] == kind]


Make = Callable[..., Stage]


def done(stage: Stage, host: str, log: bytes = b"", **row: Any) -> None:
    """A host whose ranks end as soon as they are followed."""
    frames = [encode("log", log, rank=rank, at=0) for rank in stage.ranks(host) if log]
    stage.on_follow(host, *frames, stage.state(host, "ended", **{**OK, **row}))
    stage.far[host].state = {}


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stage]:
    """make(number of hosts, facts=their facts, **job values)"""

    def build(count: int = 2, **values: Any) -> Stage:
        facts = values.pop("facts", {})
        everyone = hosts(count, **facts) if isinstance(facts, dict) else facts
        made = plan(*everyone, **{"probe": False, **values})
        paths = RunPaths(tmp_path / "calm-otter-1")
        paths.create()
        write_json(paths.run, {"id": "calm-otter-1", "status": "starting"})
        far = FakeHosts(*(FakeHost(host.name) for host in everyone))
        monkeypatch.setattr("ddp_play.run.host_links.ProcessChannel", far)
        # fake channels have nothing to wait on
        monkeypatch.setattr("ddp_play.run.host_links.wait_any", lambda _channels, _timeout_s: time.sleep(0.005))
        return Stage(made, paths, far)

    return build


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The events that runs with a hook or without one tell, each with its fields."""
    found: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(RunHooks, "tell", lambda _hooks, event, _paths, **more: found.append((event, more)))
    return found


@pytest.fixture
def staged(make: Make, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Stage]:
    """staged(hosts in use, spares): two attempts, a short lease, a shared directory."""
    monkeypatch.setattr("ddp_play.run.host_links.BEAT_S", 0.1)
    monkeypatch.setattr("ddp_play.run.host_links.RECONNECT_S", 0.2)
    monkeypatch.setattr("ddp_play.run.restart_loop.LOST_HOSTS_S", 0.3)
    monkeypatch.setattr("ddp_play.run.fencing.FENCE_MARGIN_S", 0.1)

    def build(count: int, spares: int = 0, **values: Any) -> Stage:
        names = [f"h{n}" for n in range(count + 1, count + spares + 1)]
        wanted = {"restarts": 1, "lease": 0.1, "grace": 0.1, "spares": names, **values}
        mount = wanted.pop("mount", shared())
        stage = make(count + spares, facts={"shared": mount}, **wanted)
        facts = {host.name: raw(host) for host in hosts(count + spares, shared=mount)}
        made = job(probe=False, **wanted)
        write_json(stage.paths.root / "job.json", made.model_dump(mode="json"))
        write_json(stage.paths.fleet, Fleet(made, facts, (), (), {}).to_json())
        write_json(stage.paths.plan, stage.plan.to_json())
        return stage

    return build


def by_attempt(stage: Stage, host: str, **attempts: Any) -> None:
    """What a host does when it is followed: a1=..., a2=... are rows of its ranks, or frames."""

    def follow(_header: Header, _payload: bytes) -> list[bytes]:
        attempt = int(stage.far[host].order("open")["attempt"])
        given = attempts[f"a{attempt}"]
        return given if isinstance(given, list) else [state(stage, host, **given)]

    stage.far[host].answers["follow"] = follow


def state(stage: Stage, host: str, **row: Any) -> bytes:
    """The state of a host whose ranks are all alike; its last order tells which ranks it has."""
    ranks = [rank["rank"] for rank in stage.far[host].order("prepare")["spec"]["ranks"]]
    rows = {str(rank): {"started": 1.0, "oom": False, "stopped": False, "detail": "", **row} for rank in ranks}
    phase = "ended" if row["state"] == "exited" else "running"
    return encode("state", state={"phase": phase, "reason": "", "guard_pid": 1, "guard_ticks": 1, "ranks": rows})


def ends_when_told(stage: Stage, host: str) -> None:
    """Its ranks run in the first attempt until the stop, and end well in the second."""

    def follow(_header: Header, _payload: bytes) -> list[bytes]:
        first = stage.far[host].order("open")["attempt"] == 1
        return [state(stage, host, state="running")] if first else [state(stage, host, **OK)]

    def stop(_header: Header, _payload: bytes) -> list[bytes]:
        ended = {"state": "exited", "ended": 3.0, "exit_code": 143, "signal": 15, "stopped": True}
        return [encode("stopping"), state(stage, host, **ended)]

    stage.far[host].answers.update(follow=follow, stop=stop)


def attempts_opened(stage: Stage, host: str) -> list[int]:
    """The attempts that a host was opened for."""
    return [int(header["attempt"]) for header, _ in stage.far[host].orders if header["t"] == "open"]


def killed_once(staged: Make, spares: int = 0, **values: Any) -> Stage:
    """Two hosts and a job with a source; the first attempt ends with a killed rank on h1."""
    stage = staged(2, spares, source="/code", **values)
    by_attempt(stage, "h1", a1=KILLED)
    ends_when_told(stage, "h2")
    stage.far["h1"].answers["fetch"] = fetch
    return stage


def fetch(header: Header, _payload: bytes) -> list[bytes]:
    """The shared working directory has a checkpoint, for whoever names the directory."""
    return CHECKPOINT if header.get("source") else [encode("fetched", missing=[], artifacts=[])]


def in_attempt(stage: Stage, host: str, kind: str, number: int, answer: list[bytes]) -> None:
    """What a host answers to one kind of order from this attempt on; before it is healthy."""
    healthy = stage.far[host]._healthy

    def obey(header: Header, _payload: bytes) -> list[bytes]:
        late = int(stage.far[host].order("open")["attempt"]) >= number
        return answer if late else healthy(kind, header)

    stage.far[host].answers[kind] = obey
