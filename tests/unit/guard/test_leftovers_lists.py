"""What is on this host: attempts, and containers that no guard owns."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import leftovers
from ddp_play.guard.run_directory import HostRun, base_dir, write_json

if TYPE_CHECKING:
    from tests.unit.guard.conftest import Engine

LISTED = "/containers/json?all=1&filters=%7B%22label%22%3A%20%5B%22ddp-play.run%22%5D%7D"


def test_containers_that_no_guard_owns(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {"ddp-play.key": "night.0123456789abcdef", "ddp-play.run": "night", "ddp-play.host": "h1"}
    more = {"ddp-play.attempt": "2", "ddp-play.owner": "kim"}
    listed = [
        {"Id": "c1", "State": "exited", "Labels": {**labels, **more}},
        {"Id": "c2", "State": "running", "Labels": {**labels, "ddp-play.host": "h2"}},
        {"Id": "c3", "Labels": {"ddp-play.run": "old"}},
        {"Id": "c4", "Labels": None},
    ]
    engine.has(f"GET {LISTED}", listed)
    at_work = HostRun(Path("/state/runs/night.0123456789abcdef/2.h2"))
    monkeypatch.setattr(leftovers, "guards", lambda: {7: at_work})
    found = leftovers.orphan_containers()
    assert found[0] == {
        "id": "c1",
        "run": "night",
        "token": "0123456789abcdef",
        "host": "h1",
        "attempt": "2",
        "owner": "kim",
        "state": "exited",
    }
    assert [(row["id"], row["run"], row["token"]) for row in found[1:]] == [("c3", "old", ""), ("c4", "", "")]


def test_containers_of_a_run_that_is_being_prepared_are_no_orphans(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its guard starts after its containers were made: `gc` listed and removed them."""
    place = HostRun.at("night.0123456789abcdef", 1, "h1")
    place.root.mkdir(parents=True)
    labels = {"ddp-play.key": "night.0123456789abcdef", "ddp-play.run": "night"}
    listed = [{"Id": name, "Labels": {**labels, "ddp-play.host": name}} for name in ("h1", "h2")]
    engine.has(f"GET {LISTED}", listed)
    monkeypatch.setattr(leftovers, "guards", dict)
    assert leftovers.used_containers(["h1", "h2", "gone"]) == []
    with place.channel_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert [row["id"] for row in leftovers.orphan_containers()] == ["h2"]
        assert leftovers.used_containers(["h1", "h2", "gone"]) == ["h1"]


def test_a_host_without_an_engine_has_no_containers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nobody'}")
    assert leftovers.orphan_containers() == []


def test_attempts_on_this_host() -> None:
    assert leftovers.runs() == []
    for attempt, host in ((1, "h1.example"), (2, "h1.example")):
        place = HostRun.at("night.0123456789abcdef", attempt, host)
        place.logs.mkdir(parents=True)
    (base_dir() / "runs" / "a-file").touch()
    write_json(place.spec, {"owner": "kim", "controller": "login1", "created": 12.5})
    ranks = {"0": {"state": "exited", "exit_code": 1, "signal": None, "pid": 5, "container": None, "detail": "x"}}
    write_json(place.state, {"phase": "ended", "reason": "done", "ranks": ranks})
    first, second = leftovers.runs()
    assert (first["attempt"], first["phase"], first["owner"], first["since"]) == (1, "unknown", "", 0)
    assert (first["guard_alive"], first["ranks"]) == (False, {})
    del ranks["0"]["detail"]
    assert second == {
        "run": "night",
        "token": "0123456789abcdef",
        "attempt": 2,
        "host": "h1.example",
        "elsewhere": "",
        "unknown": "",
        "path": str(place.root),
        "phase": "ended",
        "reason": "done",
        "guard_alive": False,
        "attended": False,
        "owner": "kim",
        "controller": "login1",
        "ranks": ranks,
        "since": 12.5,
        "uncollected": True,
    }
