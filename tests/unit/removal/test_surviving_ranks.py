"""What a cleanup could not remove stays known: to a second one, which the controller may ask for, and to `gc`."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import leftovers, processes
from ddp_play.guard.run_directory import HostRun, read_json, write_json
from tests.unit.guard.stand_ins import hung
from tests.unit.guard.test_daemon import guard_over
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

SPEC: dict[str, Any] = {"ranks": [], "attempt": 1, "head": True, "run_paths": []}


@pytest.fixture
def place() -> HostRun:
    """An attempt whose guard was killed."""
    made = HostRun.at("r1", 1, "h1")
    made.logs.mkdir(parents=True)
    (made.logs / "rank-0.log").write_text("step 1\n")
    made.src.mkdir()
    write_json(made.spec, SPEC)
    return made


@pytest.mark.parametrize("keep_src", [False, True])
def test_a_rank_that_survives_is_named_until_it_has_ended(
    tmp_path: Path, place: HostRun, monkeypatch: pytest.MonkeyPatch, keep_src: bool
) -> None:
    """The controller asks again if it did not get the answer; a host counts as clean when nothing is left."""
    monkeypatch.setattr(leftovers, "KILL_S", 0.3)
    with hung(tmp_path / "nfs") as program:
        assert program.stdout is not None
        if not (line := program.stdout.readline()):
            pytest.skip("no file system can be mounted here")
        row = {"pid": int(line), "ticks": processes.start_ticks(int(line)), "container": None}
        write_json(place.state, {"phase": "running", "boot": processes.boot_id(), "ranks": {"0": row}})
        named = [f"rank 0: process {row['pid']} did not end after SIGKILL"]
        assert leftovers.clean(place, keep_src=keep_src).left == named
        assert leftovers.clean(place, keep_src=keep_src).left == named
        assert sorted(path.name for path in place.root.iterdir()) == ["spec.json", *["src"] * keep_src, "state.json"]
        program.communicate(timeout=10)
        assert leftovers.clean(place, keep_src=keep_src).left == []
    assert (place.spec.exists(), place.src.exists(), place.state.exists()) == (keep_src, keep_src, False)
    assert place.root.exists() == keep_src


def test_what_a_cleanup_left_is_listed_and_named_again(tmp_path: Path, place: HostRun) -> None:
    """`gc` knows files elsewhere by spec.json alone, and removes them without `--run`: nothing is uncollected."""
    (tmp_path / "file").touch()
    shutil.rmtree(place.src)
    write_json(place.spec, {**SPEC, "owned_paths": [str(tmp_path / "file" / "rendezvous")], "run_paths": ["/gone"]})
    write_json(place.state, {"phase": "running", "ranks": {"0": {"pid": None, "container": "r0"}}})
    assert leftovers.runs()[0]["uncollected"]
    named = [f"{tmp_path / 'file'}: Not a directory"]
    assert leftovers.clean(place).left == named
    (row,) = leftovers.runs()
    assert (row["uncollected"], row["unknown"], row["ranks"]["0"]["container"]) == (False, "", "r0")
    assert leftovers.clean(place).left == named
    (tmp_path / "file").unlink()
    assert leftovers.clean(place).left == []
    assert leftovers.runs() == []


def test_a_torchrun_whose_ranks_are_not_known_yet_ends_with_all_it_started(tmp_path: Path) -> None:
    """It loads torch for seconds, and each rank for more before its wrapper tells its pid; the guard was killed."""
    unit = {"rank": 0, "env": {"PATH": os.environ["PATH"]}, "workdir": "/"}
    agent = {**unit, "argv": ["/bin/sh", "-c", "setsid sleep 100 & echo $!; wait"]}
    with guard_over(tmp_path, [{**unit, "argv": []}], agent=agent) as (place, guard):
        place.order("go")
        wait_until(lambda: place.agent_log.exists() and place.agent_log.read_text().endswith("\n"))
        wait_until(lambda: (read_json(place.state) or {})["phase"] == "running")
        guard.kill()
        guard.wait(10)
        rank = int(place.agent_log.read_text())
        assert processes.alive(rank, None)
        assert leftovers.clean(place).left == []
        assert not processes.alive(rank, None)
