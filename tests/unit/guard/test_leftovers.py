"""Taking one attempt off a host: exactly that, and of what attempts share nothing that a later one uses."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import attempt_directories, leftovers, processes, source_unpacking
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun, read_json, write_json

if TYPE_CHECKING:
    from tests.unit.guard.conftest import Engine


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    path = tmp_path / "shared" / ".ddp-play" / "r1"
    path.mkdir(parents=True)
    (path / "checkpoint").touch()
    return path


def laid_out(tmp_path: Path, shared: Path, attempt: int, *, head: bool = True) -> HostRun:
    """An attempt as `prepare` leaves it."""
    place = HostRun(tmp_path / "state" / "runs" / "r1" / f"{attempt}.h1")
    none = {"role": "none", "path": "", "collect": False}
    spec: dict[str, Any] = {"ranks": [], "source": none, "user": None, "attempt": attempt, "head": head}
    spec["run_paths"] = [str(shared)]
    attempt_directories.create_files(place, spec)
    write_json(place.spec, spec)
    return place


@pytest.mark.parametrize(
    ("head", "told", "gone"),
    [
        (True, None, True),  # gc, and attempts that fail before their start
        (False, None, False),
        (True, [], False),  # another attempt follows
        (False, ["shared"], True),  # the head is lost: this host does it
    ],
)
def test_who_takes_what_attempts_share(
    tmp_path: Path, shared: Path, head: bool, told: list[str] | None, gone: bool
) -> None:
    place = laid_out(tmp_path, shared, 1, head=head)
    run_paths = told and [str(shared)] if told else told
    assert leftovers.clean(place, run_paths=run_paths) == []
    assert not place.root.exists()
    assert shared.exists() is not gone


def test_a_host_that_comes_back_leaves_a_later_attempt_its_directory(tmp_path: Path, shared: Path) -> None:
    first = laid_out(tmp_path, shared, 1)
    second = laid_out(tmp_path, shared, 2)
    assert leftovers.newest_attempt(shared) == 2
    assert leftovers.clean(first) == []
    assert (shared / "checkpoint").exists()
    assert leftovers.clean(second) == []
    assert not shared.exists()


def test_what_could_not_be_brought_home_stays_with_what_is_shared(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1)
    assert leftovers.clean(place, keep_src=True, run_paths=[str(shared)]) == []
    assert (shared / "checkpoint").exists()
    assert place.spec.exists(), "gc finds it by that"
    assert str(shared) in leftovers.kept(place)


def test_a_rank_that_outlived_its_guard_is_ended_and_that_is_waited_for(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1)
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as rank:
        rows = {"0": {"pid": rank.pid, "ticks": processes.start_ticks(rank.pid), "container": None}}
        write_json(place.state, {"phase": "running", "boot": processes.boot_id(), "ranks": rows})
        assert leftovers.clean(place) == []
        assert rank.wait(5) == -9


def test_a_place_at_work_says_so(tmp_path: Path) -> None:
    place = HostRun(tmp_path / "1.h1")
    assert not place.attended()
    with place.attend():
        assert place.attended()
        with place.attend():
            assert place.attended(), "two channels may be at work for a moment"
    assert not place.attended()


def test_a_later_attempt_goes_on_in_the_working_directory(tmp_path: Path, shared: Path) -> None:
    """It is not unpacked again: the trainer's own files are in it, and a source it may have changed."""
    place = HostRun(tmp_path / "state" / "runs" / "r1" / "2.h1")
    source = {"role": "unpack", "path": str(shared / "src"), "digest": "d1", "wait_s": 0.1}
    (shared / "src").mkdir()
    (shared / "src" / "train.py").write_text("print('mine')")
    (shared / ".complete-d1").touch()
    source_unpacking.unpack_source(place, {"source": source})
    assert (shared / "src" / "train.py").read_text() == "print('mine')"
    (shared / ".complete-d1").unlink()
    with pytest.raises(Refused, match=r"is no longer at "):
        source_unpacking.unpack_source(place, {"source": source})


@pytest.mark.parametrize("by_guard", [True, False])
def test_an_attempt_that_continues_others_never_takes_what_they_left(
    tmp_path: Path, shared: Path, by_guard: bool
) -> None:
    """A head that was prepared for a restart and heard no more cleans up by itself: the checkpoints stay."""
    place = laid_out(tmp_path, shared, 2)
    write_json(place.spec, {**(read_json(place.spec) or {}), "continues": True})
    assert leftovers.clean(place, by_guard=by_guard) == []
    assert not place.root.exists()
    assert (shared / "checkpoint").exists()


def test_an_engine_that_hangs_costs_one_question(
    tmp_path: Path, shared: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process of the container is killed all the same, and the container is named as left."""
    monkeypatch.setattr(leftovers, "PING_S", 0.5)
    engine.awake.clear()
    place = laid_out(tmp_path, shared, 1)
    with subprocess.Popen(["/bin/sleep", "100"]) as first:
        row = {"pid": first.pid, "ticks": processes.start_ticks(first.pid), "container": "r0"}
        write_json(place.state, {"boot": processes.boot_id(), "ranks": {"0": row}})
        ranks = [{"rank": n, "container": f"r{n}"} for n in range(8)]
        write_json(place.spec, {**(read_json(place.spec) or {}), "ranks": ranks})
        began = time.monotonic()
        left = leftovers.clean(place)
        assert first.wait(10) == -signal.SIGKILL
    assert time.monotonic() - began < 5
    assert [text.partition(":")[0] for text in left] == [f"container r{n}" for n in range(8)]
    assert "did not answer" in left[0]
    assert [request for request in engine.asked if request != "GET /_ping"] == []
