"""Other runs of the same name on a host: found by their token, whoever's they are."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ddp_play.guard import leftovers, run_id_conflicts
from ddp_play.guard.protocol import run_key, split_run_key
from ddp_play.guard.run_directory import HostRun, base_dir, write_json

OURS, THEIRS = "0123456789abcdef", "fedcba9876543210"


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("night", ("night", "")),
        (f"night.{OURS}", ("night", OURS)),
        (f"night.2.{OURS}", ("night.2", OURS)),
        ("night.0123", ("night.0123", "")),
        (f"night.{OURS.upper()}", (f"night.{OURS.upper()}", "")),
    ],
)
def test_a_key_holds_the_name_and_the_token(key: str, parts: tuple[str, str]) -> None:
    assert split_run_key(key) == parts
    assert run_key(*parts) == key


def make_run(key: str, host: str = "h1", **spec: object) -> HostRun:
    """A run's directory on this host."""
    place = HostRun.at(key, 1, host)
    place.root.mkdir(parents=True)
    write_json(place.spec, spec)
    return place


def test_nothing_there_and_ones_own_are_no_namesakes(tmp_path: Path) -> None:
    assert run_id_conflicts.problem("night", OURS, [str(tmp_path / "absent")]) == ""
    make_run(run_key("night", OURS))
    make_run(run_key("night2", THEIRS))
    (tmp_path / ".ddp-play" / run_key("night", OURS)).mkdir(parents=True)
    assert run_id_conflicts.problem("night", OURS, [str(tmp_path / ".ddp-play")]) == ""


def test_what_another_controllers_run_left_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.guard.run_id_conflicts.time.time", lambda: 8200.0)
    make_run(run_key("night", THEIRS), owner="kim", controller="login2", created=1000.0)
    problem = run_id_conflicts.problem("night", OURS, [])
    where = base_dir() / "runs" / run_key("night", THEIRS)
    assert problem == f"run night of kim, started 2 h ago from login2, has files here: {where}"


def test_a_run_of_an_earlier_version_has_no_token(tmp_path: Path) -> None:
    make_run("night", owner="kim")
    assert "run night of kim" in run_id_conflicts.problem("night", OURS, [])


def test_another_users_run_on_a_shared_directory(tmp_path: Path) -> None:
    path = tmp_path / ".ddp-play" / run_key("night", THEIRS)
    path.mkdir(parents=True)
    problem = run_id_conflicts.problem("night", OURS, [str(path.parent)])
    assert problem.startswith("run night of ")
    assert problem.endswith(f"has files here: {path}")


def test_a_living_guard_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its spec cannot be read: the process tells whose it is."""
    unreadable = HostRun(base_dir() / "runs" / run_key("night", THEIRS) / "1.h1")
    monkeypatch.setattr("ddp_play.guard.run_id_conflicts.guards", lambda: {1: unreadable})
    found = run_id_conflicts.find("night", OURS, [])
    assert [(row.alive, row.place) for row in found] == [(True, "process 1")]
    assert "is running: its guard is process 1" in run_id_conflicts.problem("night", OURS, [])


def test_a_guard_on_a_directory_that_stands_for_another_host_is_not_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_HOST_DIR", str(base_dir()))
    elsewhere = HostRun(Path("/elsewhere/runs") / run_key("night", THEIRS) / "1.h1")
    monkeypatch.setattr("ddp_play.guard.run_id_conflicts.guards", lambda: {1: elsewhere})
    assert run_id_conflicts.find("night", OURS, []) == []


def test_the_list_of_runs_tells_them_apart() -> None:
    make_run(run_key("night", THEIRS), owner="kim")
    rows = [(row["run"], row["token"], row["owner"]) for row in leftovers.runs()]
    assert rows == [("night", THEIRS, "kim")]
    assert json.dumps(leftovers.runs())


def test_a_running_namesake_comes_before_its_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`ddp-play gc` would be the wrong advice while it runs."""
    place = make_run(run_key("night", THEIRS), owner="kim", controller="login2", created=1000.0)
    (tmp_path / ".ddp-play" / run_key("night", THEIRS)).mkdir(parents=True)
    monkeypatch.setattr("ddp_play.guard.run_id_conflicts.guards", lambda: {os.getpid(): place})
    monkeypatch.setattr("ddp_play.guard.run_id_conflicts.time.time", lambda: 1090.0)
    found = run_id_conflicts.find("night", OURS, [str(tmp_path / ".ddp-play")])
    assert [row.alive for row in found] == [True, False, False]
    assert (found[0].owner, found[0].controller, found[0].since) == ("kim", "login2", 1000.0)
    problem = run_id_conflicts.problem("night", OURS, [])
    me = os.getpid()
    assert problem == f"run night of kim, started 1 min ago from login2, is running: its guard is process {me}"


def test_a_guard_whose_spec_tells_nothing_is_as_old_as_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    place = make_run(run_key("night", THEIRS))
    monkeypatch.setattr("ddp_play.guard.run_id_conflicts.guards", lambda: {os.getpid(): place})
    (living, files) = run_id_conflicts.find("night", OURS, [])
    assert living.since == Path(f"/proc/{os.getpid()}").stat().st_mtime
    assert files.since == place.root.parent.stat().st_mtime
    assert living.controller == ""


def test_the_newest_attempt_tells_whose_run_it_is() -> None:
    key = run_key("night", THEIRS)
    make_run(key, owner="kim", created=1000.0)
    second = HostRun.at(key, 2, "h1")
    second.root.mkdir()
    write_json(second.spec, {"owner": "pat", "created": 2000.0})
    (found,) = run_id_conflicts.find("night", OURS, [])
    assert (found.owner, found.since) == ("pat", 2000.0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (86399, "23 h"),
        (86400, "1 d"),
        (200000, "2 d"),
    ],
)
def test_the_age_of_a_namesake(seconds: float, words: str) -> None:
    found = run_id_conflicts.Namesake(False, "kim", "", 1000.0, "/x")
    told = run_id_conflicts.describe_namesake(found, "night", 1000.0 + seconds)
    assert told == f"run night of kim, started {words} ago, has files here: /x"


def test_a_namesake_of_unknown_age() -> None:
    found = run_id_conflicts.Namesake(True, "kim", "", 0.0, "process 7")
    assert run_id_conflicts.describe_namesake(found, "night", 5.0) == (
        "run night of kim, is running: its guard is process 7"
    )
    found = found._replace(controller="login2")
    assert run_id_conflicts.describe_namesake(found, "night", 5.0) == (
        "run night of kim, started from login2, is running: its guard is process 7"
    )
