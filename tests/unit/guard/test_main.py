"""The program's verbs that answer once: the zip file as the controller starts it."""

from __future__ import annotations

import fcntl
import json
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard.protocol import BEGIN, END
from ddp_play.guard.run_directory import HostRun, write_json
from tests.unit.guard import host_program

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.guard.conftest import Engine


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    """What an ended attempt left."""
    found = HostRun(tmp_path / "runs" / "night.0123456789abcdef" / "1.h1")
    found.root.mkdir(parents=True)
    write_json(found.state, {"phase": "ended", "reason": "", "ranks": {}})
    write_json(found.spec, {"owner": "kim", "ranks": []})
    return found


def answer(root: Path, *arguments: str, wrap: tuple[str, ...] = ()) -> Any:
    out, err = host_program.start(root, *arguments, wrap=wrap).communicate(timeout=60)
    assert out.startswith(BEGIN.encode()), err.decode()
    return json.loads(out.decode().strip().removeprefix(BEGIN).removesuffix(END))


def test_runs_are_listed_and_cleaned(tmp_path: Path, place: HostRun) -> None:
    (row,) = answer(tmp_path, "runs")["runs"]
    assert (row["run"], row["attempt"], row["host"], row["owner"]) == ("night", 1, "h1", "kim")
    assert answer(tmp_path, "clean", json.dumps({"paths": [row["path"]]})) == {"left": []}
    assert not place.root.exists()
    assert answer(tmp_path, "runs")["runs"] == []


def test_a_run_at_which_a_channel_works_is_not_cleaned(tmp_path: Path, place: HostRun) -> None:
    with place.attend():
        left = answer(tmp_path, "clean", json.dumps({"paths": [str(place.root)]}))["left"]
        assert left[0].startswith(f"{place.root}: a guard or a channel became active after it was listed")
        assert place.spec.exists()
        assert answer(tmp_path, "clean", json.dumps({"paths": [str(place.root)], "living_too": True})) == {"left": []}
    assert not place.root.exists()


def test_a_container_whose_run_became_active_after_it_was_listed_is_not_removed(
    tmp_path: Path, place: HostRun, engine: Engine
) -> None:
    labels = {"ddp-play.key": "night.0123456789abcdef", "ddp-play.run": "night", "ddp-play.host": "h1"}
    path = "/containers/json?all=1&filters=%7B%22label%22%3A%20%5B%22ddp-play.run%22%5D%7D"
    engine.has(f"GET {path}", [{"Id": "c1", "State": "running", "Labels": labels}])
    with place.channel_lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        left = answer(tmp_path, "clean", json.dumps({"containers": ["c1"]}))["left"]
    assert left == ["container c1: its run became active after it was listed"]


def test_cleaning_nothing_is_nothing(tmp_path: Path) -> None:
    assert answer(tmp_path, "clean", "{}") == {"left": []}


def test_an_unknown_verb_is_named(tmp_path: Path) -> None:
    process = host_program.start(tmp_path, "dance")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.decode().strip() == "unknown verb dance"
