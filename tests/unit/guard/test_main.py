"""The program's verbs that answer once: the zip file as the controller starts it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard.protocol import BEGIN, END
from ddp_play.guard.run_directory import HostRun, write_json
from tests.unit.guard import host_program

if TYPE_CHECKING:
    from pathlib import Path


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


def test_cleaning_nothing_is_nothing(tmp_path: Path) -> None:
    assert answer(tmp_path, "clean", "{}") == {"left": []}


def test_an_unknown_verb_is_named(tmp_path: Path) -> None:
    process = host_program.start(tmp_path, "dance")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.decode().strip() == "unknown verb dance"
