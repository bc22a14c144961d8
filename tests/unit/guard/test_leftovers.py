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
from tests.unit.guard.stand_ins import LAST_WORDS, SLEEPS, guard_state, row_of, started
from tests.waiting import wait_until

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
    with started("echo; sleep 600") as rank:
        rows = {"0": row_of(rank)}
        write_json(place.state, {"phase": "running", "boot": processes.boot_id(), "ranks": rows})
        assert leftovers.clean(place) == []
        assert rank.wait(5) == -9


def test_what_mounts_an_image_ends_with_its_rank(tmp_path: Path, shared: Path) -> None:
    """It leads a group of its own."""
    place = laid_out(tmp_path, shared, 1)
    with started("setsid sleep 600 & sleep 0.1; echo; wait") as rank:
        (helper,) = processes.children(rank.pid)
        rows = {"0": row_of(rank, by_apptainer=True)}
        write_json(place.state, {"phase": "running", "boot": processes.boot_id(), "ranks": rows})
        assert leftovers.clean(place) == []
        assert rank.wait(5) == -9
        wait_until(lambda: not processes.alive(helper, None), timeout_s=10, what="its end")


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
    with started("echo; exec sleep 100") as first:
        row = row_of(first, container="r0")
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


def test_a_guard_that_cleans_up_itself_signals_nobody(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1)
    with started(SLEEPS) as guard, started(SLEEPS) as rank:
        write_json(place.state, guard_state(guard, ranks={"0": row_of(rank)}))
        assert leftovers.clean(place, by_guard=True) == []
        with pytest.raises(subprocess.TimeoutExpired):
            rank.wait(0.2)
        assert guard.poll() is None
    assert not place.root.exists()


def test_the_guard_of_an_attempt_ends_before_its_files_are_removed(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1)
    with started(LAST_WORDS % (place.root / "done")) as guard:
        write_json(place.state, guard_state(guard))
        assert leftovers.clean(place) == []
        assert guard.wait(5) == 0, "its files were there when it ended"
    assert not place.root.exists()


# -- what may go on ----------------------------------------------------------------------------------


def refuse_removal(_path: Path) -> list[str]:
    return ["data: Read-only file system"]


def test_files_that_stay_are_not_told_as_ranks(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another attempt may start although the disk of the host has become read-only."""
    place = laid_out(tmp_path, shared, 1)
    monkeypatch.setattr(leftovers, "_remove_tree", refuse_removal)
    monkeypatch.setattr(leftovers, "_keep_only", lambda *_: ["state: Read-only file system"])
    with started(SLEEPS) as rank:
        write_json(place.state, guard_state(rank, ranks={"0": row_of(rank)}))
        alive: list[str] = []
        left = leftovers.clean(place, alive=alive)
        assert rank.wait(5) < 0
    assert "data: Read-only file system" in left
    assert alive == []


def test_a_process_that_does_not_end_is_told(tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = laid_out(tmp_path, shared, 1)
    monkeypatch.setattr(leftovers, "_stop_ranks", lambda _: ["rank 0: process 12 did not end after SIGKILL"])
    write_json(place.state, {"ranks": {}, "phase": "running"})
    alive: list[str] = []
    assert leftovers.clean(place, alive=alive) == alive == ["rank 0: process 12 did not end after SIGKILL"]


@pytest.mark.parametrize("lost", ["spec", "state"])
def test_where_it_cannot_be_read_what_ran_nothing_is_known_to_have_ended(
    tmp_path: Path, shared: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    place = laid_out(tmp_path, shared, 1)
    write_json(place.state, {"ranks": {}, "phase": "running"})
    getattr(place, lost).write_text("cut o")
    monkeypatch.setattr(leftovers, "_remove_tree", refuse_removal)
    monkeypatch.setattr(leftovers, "_keep_only", lambda *_: ["state: Input/output error"])
    alive: list[str] = []
    assert leftovers.clean(place, alive=alive) == alive != []


# -- files -------------------------------------------------------------------------------------------


def test_other_attempts_of_the_run_stay(tmp_path: Path, shared: Path) -> None:
    first, second = laid_out(tmp_path, shared, 1), laid_out(tmp_path, shared, 2)
    assert leftovers.clean(first) == []
    assert second.spec.exists()
    assert leftovers.clean(second) == []
    assert not second.root.parent.exists(), "the run's directory goes with its last attempt"


def test_only_the_paths_of_the_attempt_are_removed(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1, head=False)
    for name in ("rendezvous-1", "rendezvous-2"):
        (tmp_path / name).touch()
    owned = [str(tmp_path / "rendezvous-1"), str(tmp_path / "never" / "made")]
    write_json(place.spec, {**(read_json(place.spec) or {}), "owned_paths": owned})
    assert leftovers.clean(place) == []
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["rendezvous-2"]


def test_a_working_directory_that_is_kept_is_all_that_stays(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1, head=False)
    write_json(place.spec, {**(read_json(place.spec) or {}), "run_paths": []})
    place.src.mkdir()
    (place.src / "model.pt").touch()
    assert leftovers.clean(place, keep_src=True) == []
    assert sorted(path.name for path in place.root.iterdir()) == ["spec.json", "src"]
    assert leftovers.kept(place) == [str(place.src)]
    assert leftovers.clean(place) == []
    assert not place.root.exists()
    assert leftovers.kept(place) == []


def test_output_that_was_not_collected_stays_until_gc_removes_it(tmp_path: Path, shared: Path) -> None:
    """A file of a rank over its limit was named as missing and then removed."""
    place = laid_out(tmp_path, shared, 1, head=False)
    write_json(place.spec, {**(read_json(place.spec) or {}), "run_paths": []})
    place.rank_dir(0).mkdir(exist_ok=True)
    (place.rank_dir(0) / "metrics.jsonl").write_bytes(b"1")
    assert leftovers.clean(place, keep_src=True, keep=["rank-0"]) == []
    assert sorted(path.name for path in place.root.iterdir()) == ["rank-0", "spec.json"]
    assert leftovers.kept(place, ["rank-0"]) == [str(place.rank_dir(0))]
    assert leftovers.clean(place) == []
    assert not place.root.exists()


def test_logs_are_kept_with_what_tells_where_a_truncated_one_starts(tmp_path: Path, shared: Path) -> None:
    """Without it the next channel would pass over lines of a log that its rank has truncated."""
    place = laid_out(tmp_path, shared, 1, head=False)
    write_json(place.spec, {**(read_json(place.spec) or {}), "run_paths": []})
    place.logs.mkdir(exist_ok=True)
    write_json(place.file_starts, {})
    assert leftovers.clean(place, keep_src=True, keep=["logs"]) == []
    assert {place.logs, place.file_starts, place.spec} <= set(place.root.iterdir())
    assert leftovers.clean(place) == []
    assert not place.root.exists()


def test_nothing_is_kept_where_no_working_directory_is(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1, head=False)
    write_json(place.spec, {**(read_json(place.spec) or {}), "run_paths": []})
    assert leftovers.clean(place, keep_src=True) == []
    assert not place.root.exists()


@pytest.mark.parametrize("mark", [None, b"", b"two"])
def test_a_shared_directory_without_a_readable_mark_goes_with_any_attempt(
    tmp_path: Path, shared: Path, mark: bytes | None
) -> None:
    place = laid_out(tmp_path, shared, 1)
    (shared / leftovers.ATTEMPT_MARK).unlink()
    if mark is not None:
        (shared / leftovers.ATTEMPT_MARK).write_bytes(mark)
    assert leftovers.newest_attempt(shared) == 0
    assert leftovers.clean(place) == []
    assert not shared.exists()


def test_what_cannot_be_removed_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert leftovers._remove_tree(tmp_path / "file" / "below") == [f"{tmp_path / 'file'}: Not a directory"]
    assert leftovers._remove_tree(tmp_path / "missing" / "below") == []
    assert (tmp_path / "file").exists()


# -- containers ---------------------------------------------------------------------------------------


def test_all_containers_of_an_attempt_are_removed_and_a_refusal_costs_no_other(
    tmp_path: Path, shared: Path, engine: Engine
) -> None:
    for name in ("r1", "agent"):
        engine.has(f"DELETE /containers/{name}?force=1&v=1", None, 204)
    engine.has("DELETE /containers/r0?force=1&v=1", {"message": "device or resource busy"}, 500)
    place = laid_out(tmp_path, shared, 1)
    units = {"ranks": [{"rank": 0, "container": "r0"}, {"rank": 1, "container": "r1"}, {"rank": 2}]}
    write_json(place.spec, {**(read_json(place.spec) or {}), **units, "agent": {"container": "agent"}})
    assert leftovers.clean(place) == ["container r0: device or resource busy"]
    removed = [request.split("/")[2].partition("?")[0] for request in engine.asked if request.startswith("DELETE")]
    assert removed == ["r0", "r1", "agent"]
    assert [path.name for path in place.root.iterdir()] == ["spec.json"], "a later call must know the container"
    engine.has("DELETE /containers/r0?force=1&v=1", None, 204)
    assert leftovers.clean(place) == []
    assert not place.root.exists()


def test_an_engine_is_asked_only_about_containers(tmp_path: Path, shared: Path, engine: Engine) -> None:
    assert leftovers.clean(laid_out(tmp_path, shared, 1)) == []
    assert engine.asked == []
