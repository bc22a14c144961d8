"""Taking one attempt off a host: exactly that, and of what attempts share nothing that a later one uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.guard import leftovers, source_unpacking
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun, read_json, write_json
from tests.unit.guard.prepared_attempt import laid_out, shared

__all__ = ["shared"]


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
    assert leftovers.clean(place, run_paths=run_paths).left == []
    assert not place.root.exists()
    assert shared.exists() is not gone


def test_a_host_that_comes_back_leaves_a_later_attempt_its_directory(tmp_path: Path, shared: Path) -> None:
    first = laid_out(tmp_path, shared, 1)
    second = laid_out(tmp_path, shared, 2)
    assert leftovers.newest_attempt(shared) == 2
    assert leftovers.clean(first).left == []
    assert (shared / "checkpoint").exists()
    assert leftovers.clean(second).left == []
    assert not shared.exists()


def test_what_could_not_be_brought_home_stays_with_what_is_shared(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1)
    assert leftovers.clean(place, keep_src=True, run_paths=[str(shared)]).left == []
    assert (shared / "checkpoint").exists()
    assert place.spec.exists(), "gc finds it by that"
    assert str(shared) in leftovers.kept(place)


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
    assert leftovers.clean(place, by_guard=by_guard).left == []
    assert not place.root.exists()
    assert (shared / "checkpoint").exists()


def test_other_attempts_of_the_run_stay(tmp_path: Path, shared: Path) -> None:
    first, second = laid_out(tmp_path, shared, 1), laid_out(tmp_path, shared, 2)
    assert leftovers.clean(first).left == []
    assert second.spec.exists()
    assert leftovers.clean(second).left == []
    assert not second.root.parent.exists(), "the run's directory goes with its last attempt"


def test_only_the_paths_of_the_attempt_are_removed(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1, head=False)
    for name in ("rendezvous-1", "rendezvous-2"):
        (tmp_path / name).touch()
    owned = [str(tmp_path / "rendezvous-1"), str(tmp_path / "never" / "made")]
    write_json(place.spec, {**(read_json(place.spec) or {}), "owned_paths": owned})
    assert leftovers.clean(place).left == []
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["rendezvous-2"]


def test_a_working_directory_that_is_kept_is_all_that_stays(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1, head=False)
    write_json(place.spec, {**(read_json(place.spec) or {}), "run_paths": []})
    place.src.mkdir()
    (place.src / "model.pt").touch()
    assert leftovers.clean(place, keep_src=True).left == []
    assert sorted(path.name for path in place.root.iterdir()) == ["spec.json", "src"]
    assert leftovers.kept(place) == [str(place.src)]
    assert leftovers.clean(place).left == []
    assert not place.root.exists()
    assert leftovers.kept(place) == []


def test_output_that_was_not_collected_stays_until_gc_removes_it(tmp_path: Path, shared: Path) -> None:
    """A file of a rank over its limit was named as missing and then removed."""
    place = laid_out(tmp_path, shared, 1, head=False)
    write_json(place.spec, {**(read_json(place.spec) or {}), "run_paths": []})
    place.rank_dir(0).mkdir(exist_ok=True)
    (place.rank_dir(0) / "metrics.jsonl").write_bytes(b"1")
    assert leftovers.clean(place, keep_src=True, keep=["rank-0"]).left == []
    assert sorted(path.name for path in place.root.iterdir()) == ["rank-0", "spec.json"]
    assert leftovers.kept(place, ["rank-0"]) == [str(place.rank_dir(0))]
    assert leftovers.clean(place).left == []
    assert not place.root.exists()


def test_logs_are_kept_with_what_tells_where_a_truncated_one_starts(tmp_path: Path, shared: Path) -> None:
    """Without it the next channel would pass over lines of a log that its rank has truncated."""
    place = laid_out(tmp_path, shared, 1, head=False)
    write_json(place.spec, {**(read_json(place.spec) or {}), "run_paths": []})
    place.logs.mkdir(exist_ok=True)
    write_json(place.file_starts, {})
    assert leftovers.clean(place, keep_src=True, keep=["logs"]).left == []
    assert {place.logs, place.file_starts, place.spec} <= set(place.root.iterdir())
    assert leftovers.clean(place).left == []
    assert not place.root.exists()


def test_nothing_is_kept_where_no_working_directory_is(tmp_path: Path, shared: Path) -> None:
    place = laid_out(tmp_path, shared, 1, head=False)
    write_json(place.spec, {**(read_json(place.spec) or {}), "run_paths": []})
    assert leftovers.clean(place, keep_src=True).left == []
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
    assert leftovers.clean(place).left == []
    assert not shared.exists()


def test_what_cannot_be_removed_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert leftovers._remove_tree(tmp_path / "file" / "below") == [f"{tmp_path / 'file'}: Not a directory"]
    assert leftovers._remove_tree(tmp_path / "missing" / "below") == []
    assert (tmp_path / "file").exists()
