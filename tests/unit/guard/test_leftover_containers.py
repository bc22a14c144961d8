"""Containers on this host that no guard owns, and those of an attempt that is removed."""

from __future__ import annotations

import fcntl
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import leftover_containers, leftovers, processes
from ddp_play.guard.run_directory import HostRun, read_json, write_json
from tests.unit.guard.prepared_attempt import laid_out, shared
from tests.unit.guard.stand_ins import row_of, started

if TYPE_CHECKING:
    from tests.unit.guard.conftest import Engine

__all__ = ["shared"]
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
    monkeypatch.setattr(leftover_containers, "guards", lambda: {7: at_work})
    found = leftover_containers.orphan_containers()
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
    monkeypatch.setattr(leftover_containers, "guards", dict)
    assert leftover_containers.used_containers(["h1", "h2", "gone"]) == []
    with place.channel_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert [row["id"] for row in leftover_containers.orphan_containers()] == ["h2"]
        assert leftover_containers.used_containers(["h1", "h2", "gone"]) == ["h1"]


def test_a_host_without_an_engine_has_no_containers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path / 'nobody'}")
    assert leftover_containers.orphan_containers() == []


def test_an_engine_that_hangs_costs_one_question(
    tmp_path: Path, shared: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the container is killed all the same, and the container is named as left."""
    monkeypatch.setattr(leftover_containers, "PING_S", 0.5)
    engine.awake.clear()
    place = laid_out(tmp_path, shared, 1)
    with started("echo; exec sleep 100") as first:
        row = row_of(first, container="r0")
        write_json(place.state, {"boot": processes.boot_id(), "ranks": {"0": row}})
        ranks = [{"rank": n, "container": f"r{n}"} for n in range(8)]
        write_json(place.spec, {**(read_json(place.spec) or {}), "ranks": ranks})
        began = time.monotonic()
        left = leftovers.clean(place).left
        assert first.wait(10) == -signal.SIGKILL
    assert time.monotonic() - began < 5
    assert [text.partition(":")[0] for text in left] == [f"container r{n}" for n in range(8)]
    assert "did not answer" in left[0]
    assert [request for request in engine.asked if request != "GET /_ping"] == []


def test_all_containers_of_an_attempt_are_removed_and_a_refusal_costs_no_other(
    tmp_path: Path, shared: Path, engine: Engine
) -> None:
    for name in ("r1", "agent"):
        engine.has(f"DELETE /containers/{name}?force=1&v=1", None, 204)
    engine.has("DELETE /containers/r0?force=1&v=1", {"message": "device or resource busy"}, 500)
    place = laid_out(tmp_path, shared, 1)
    units = {"ranks": [{"rank": 0, "container": "r0"}, {"rank": 1, "container": "r1"}, {"rank": 2}]}
    write_json(place.spec, {**(read_json(place.spec) or {}), **units, "agent": {"container": "agent"}})
    assert leftovers.clean(place).left == ["container r0: device or resource busy"]
    removed = [request.split("/")[2].partition("?")[0] for request in engine.asked if request.startswith("DELETE")]
    assert removed == ["r0", "r1", "agent"]
    assert [path.name for path in place.root.iterdir()] == ["spec.json"], "a later call must know the container"
    engine.has("DELETE /containers/r0?force=1&v=1", None, 204)
    assert leftovers.clean(place).left == []
    assert not place.root.exists()


def test_an_engine_is_asked_only_about_containers(tmp_path: Path, shared: Path, engine: Engine) -> None:
    assert leftovers.clean(laid_out(tmp_path, shared, 1)).left == []
    assert engine.asked == []
