"""Other runs of the same name on a host: found by their token, whoever's they are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import host_identity, leases, leftovers, run_id_conflicts, state_directory
from ddp_play.guard.protocol import run_key, split_run_key
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun, base_dir, user_name, write_json

if TYPE_CHECKING:
    from collections.abc import Callable

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
    row = (False, user_name(path.stat().st_uid), "", path.stat().st_mtime, str(path))
    assert run_id_conflicts.find("night", OURS, [str(path.parent)]) == [row]
    with pytest.raises(Refused) as told:
        run_id_conflicts.check("night", OURS, [str(path.parent)])
    assert (told.value.kind, str(told.value)) == (run_id_conflicts.TAKEN, problem)
    run_id_conflicts.check("day", OURS, [str(path.parent)])


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
    here = HostRun(base_dir() / "runs" / run_key("night", THEIRS) / "1.h1")
    monkeypatch.setattr("ddp_play.guard.run_id_conflicts.guards", lambda: {1: elsewhere, os.getpid(): here})
    assert [row.place for row in run_id_conflicts.find("night", OURS, [])] == [f"process {os.getpid()}"]
    monkeypatch.delenv("DDP_PLAY_HOST_DIR")
    monkeypatch.setattr(state_directory, "usual", lambda: "/dev/shm/none")
    assert [row.place for row in run_id_conflicts.find("night", OURS, [])] == [
        "process 1",
        f"process {os.getpid()}",
    ]


def test_a_guard_that_ends_meanwhile_is_not_running(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run was refused because of a run of `user -1`."""
    place = HostRun(base_dir() / "runs" / run_key("night", THEIRS) / "1.h1")
    monkeypatch.setattr("ddp_play.guard.run_id_conflicts.guards", lambda: {4194399: place, os.getpid(): place})
    assert [row.place for row in run_id_conflicts.find("night", OURS, [])] == [f"process {os.getpid()}"]


@pytest.mark.parametrize(
    ("attempts", "guard_runs", "found"),
    [
        ([], False, True),
        (["ours"], False, True),
        (["theirs"], False, False),
        (["theirs", "theirs"], False, False),
        (["theirs", "ours"], False, True),
        (["theirs"], True, True),
    ],
)
def test_attempts_of_hosts_that_share_the_directory_are_left_to_them(
    monkeypatch: pytest.MonkeyPatch, attempts: list[str], guard_runs: bool, found: bool
) -> None:
    key = run_key("night", THEIRS)
    (base_dir() / "runs" / key).mkdir(parents=True)
    hosts = {"ours": host_identity.identity(), "theirs": ["gpu08", "another machine"]}
    for number, whose in enumerate(attempts, 1):
        place = HostRun(base_dir() / "runs" / key / f"{number}.h1")
        place.root.mkdir()
        write_json(place.spec, {host_identity.FIELD: hosts[whose]})
    monkeypatch.setattr(run_id_conflicts, "look", lambda _: ({}, guard_runs))
    assert bool(run_id_conflicts.find("night", OURS, [])) is found


def test_the_directory_of_an_earlier_version_is_searched_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_directory, "earlier", lambda: str(tmp_path))
    (tmp_path / "runs" / run_key("night", THEIRS)).mkdir(parents=True)
    (found,) = run_id_conflicts.find("night", OURS, [])
    assert found.place == str(tmp_path / "runs" / run_key("night", THEIRS))


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


# -- the name while a run starts -----------------------------------------------------------------------


class Waiting:
    """The time of `hold_name`: a wait costs nothing, and `then` happens in the third."""

    def __init__(self, then: Callable[[], None] = lambda: None) -> None:
        self.waited_s: list[float] = []
        self.then = then

    def monotonic(self) -> float:
        return 50.0 + sum(self.waited_s)

    def sleep(self, seconds: float) -> None:
        self.waited_s.append(seconds)
        if len(self.waited_s) == 3:
            self.then()


def test_a_name_is_held_once_and_by_all_channels_of_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_id_conflicts, "time", Waiting())
    key = run_key("night", OURS)
    held = run_id_conflicts.hold_name(key)
    assert held is not None
    with held:
        assert run_id_conflicts.hold_name(key) is None, "of another channel of the run"
        other = run_id_conflicts.hold_name(run_key("day", THEIRS))
        assert other is not None
        other.close()


@pytest.mark.parametrize(("holder", "named"), [("process 7 of kim", "process 7 of kim"), ("", "another process")])
def test_a_name_that_another_controllers_run_keeps_is_refused(
    monkeypatch: pytest.MonkeyPatch, holder: str, named: str
) -> None:
    waiting = Waiting()
    monkeypatch.setattr(run_id_conflicts, "POLL_S", 0.5)
    monkeypatch.setattr(run_id_conflicts, "time", waiting)
    monkeypatch.setattr(run_id_conflicts, "holder", lambda *_: holder)
    held = run_id_conflicts.hold_name(run_key("night", THEIRS))
    assert held is not None
    with held, pytest.raises(Refused) as told:
        run_id_conflicts.hold_name(run_key("night", OURS))
    assert str(told.value) == f"run night is being started by another controller: {named}"
    assert told.value.kind == run_id_conflicts.TAKEN
    assert sum(waiting.waited_s) == pytest.approx(run_id_conflicts.OWN_CHANNEL_S, abs=2 * run_id_conflicts.POLL_S)


def test_a_name_is_taken_over_from_a_channel_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also from one that has not answered yet."""
    silent = leases.hold("run-night", leases.slot_scope())
    assert silent is not None
    monkeypatch.setattr(run_id_conflicts, "time", Waiting(silent.close))
    monkeypatch.setattr(leases, "MESSAGE_S", 0.01)
    held = run_id_conflicts.hold_name(run_key("night", OURS))
    assert held is not None
    held.close()
