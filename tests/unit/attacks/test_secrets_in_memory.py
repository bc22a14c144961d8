"""A neighbour in /dev/shm while a run has secrets there: they stay where the ranks and the cleanup look for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import attempt_preparation, container_rank, leftovers, run_directory, secret_files, state_directory
from ddp_play.guard.run_directory import HostRun
from tests.open_directory import open_directory
from tests.unit.guard.hostile import as_nobody, needs_root

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["open_directory"]
REAL_BASE = run_directory.secrets_base
USUAL = f"ddp-play-{os.geteuid()}"


@pytest.fixture
def memory(open_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stands for /dev/shm."""
    made = open_directory / "shm"
    made.mkdir()
    made.chmod(0o1777)
    monkeypatch.setattr(run_directory, "MEMORY", made)
    for module in (run_directory, secret_files):
        monkeypatch.setattr(module, "secrets_base", REAL_BASE)
    return made


def prepared() -> HostRun:
    """An attempt with a secret, before its start."""
    place = HostRun.at("r1", 1, "h1")
    place.logs.mkdir(parents=True)
    attempt_preparation.write_secrets(place, {"user": None}, {"TOKEN": "hunter2"})
    return place


def log_of_a_rank(place: HostRun) -> str:
    """What a rank that prints its secret left, after its end."""
    spec = {"rank": 0, "argv": ["/bin/sh", "-c", 'printf "%s" "$TOKEN"'], "env": {}, "secret_env": ["TOKEN"]}
    rank = container_rank.make({**spec, "workdir": "/"}, place)
    rank.start()
    if rank.row["pid"]:
        os.waitpid(rank.row["pid"], 0)
    return place.log(0).read_text()


@needs_root
def test_a_neighbour_that_gives_the_name_back_neither_stops_a_rank_nor_keeps_secrets(memory: Path) -> None:
    as_nobody(memory, f"mkdir {USUAL}")
    place = prepared()
    as_nobody(memory, f"rmdir {USUAL}")
    assert log_of_a_rank(place) == "hunter2"
    assert leftovers.clean(place).left == []
    assert list(memory.rglob("TOKEN")) == []


@needs_root
def test_a_neighbour_that_takes_the_name_meanwhile_does_neither(memory: Path) -> None:
    """The base of an earlier run was removed, and its name is free for everybody."""
    leftovers.clean(prepared())
    as_nobody(memory, f"mkdir {USUAL}")
    place = prepared()
    assert log_of_a_rank(place) == "hunter2"
    assert leftovers.clean(place).left == []
    assert list(memory.rglob("TOKEN")) == []


def test_secrets_are_removed_from_every_directory_of_this_user(memory: Path) -> None:
    """Two runs at once may each get a name, if a neighbour keeps the lock of /dev/shm."""
    place = prepared()
    (memory / f"{USUAL}.random").mkdir(mode=0o700)
    assert place.secrets.parent.name == f"{USUAL}.random"
    assert leftovers.clean(place).left == []
    assert list(memory.rglob("TOKEN")) == []


def test_names_that_come_and_go_hide_no_directory_of_ours(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A neighbour makes and removes files with our prefix all the time."""
    (memory / f"{USUAL}.ours").mkdir(mode=0o700)
    names = [f"{USUAL}.{number}" for number in range(20)]
    for name in names:
        (memory / name).touch()
    real: Callable[..., os.stat_result] = os.lstat

    def lstat(path: Any) -> os.stat_result:
        for name in names:
            (memory / name).unlink(missing_ok=True)
        return real(path)

    with monkeypatch.context() as here:
        here.setattr(os, "lstat", lstat)
        assert state_directory.find_own(str(memory)) == str(memory / f"{USUAL}.ours")
