"""The source of a run: unpacked once, announced, waited for."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import source_unpacking
from ddp_play.guard.protocol import SOURCE_HEADER
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun
from tests.unit.build import source_archive
from tests.unit.guard.test_attempt_directories import spec

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    return HostRun(tmp_path / "state" / "runs" / "r1" / "1.h1")


def archive(place: HostRun, *files: tuple[str, str, str]) -> None:
    """An archive with files and symbolic links: (name, content, link target)."""
    place.root.mkdir(parents=True, exist_ok=True)
    place.source_archive.write_bytes(source_archive(*files))


def source(place: HostRun, role: str = "unpack", wait_s: float = 0.2) -> dict[str, Any]:
    return spec(source={"role": role, "path": str(place.src), "digest": "d1", "wait_s": wait_s, "collect": True})


def test_the_source_is_unpacked_and_announced(place: HostRun) -> None:
    archive(place, ("pkg/train.py", "print(1)", ""), ("data", "", "/data/imagenet"))
    source_unpacking.unpack_source(place, source(place))
    assert (place.src / "pkg" / "train.py").read_text() == "print(1)"
    assert str((place.src / "data").readlink()) == "/data/imagenet"
    assert (place.root / ".complete-d1").exists()
    assert not place.source_archive.exists()
    source_unpacking.unpack_source(place, source(place, role="wait"))


def test_mode_and_time_of_files_are_those_of_the_source_whatever_the_umask(place: HostRun) -> None:
    """Ranks of another user read files in directories below the top, which alone says who may enter."""
    archive(place, ("pkg/deep/train.py", "print(1)", ""), ("pkg/model.py", "", ""))
    before = os.umask(0o077)
    try:
        source_unpacking.unpack_source(place, source(place))
    finally:
        os.umask(before)
    file = (place.src / "pkg" / "deep" / "train.py").stat()
    assert (file.st_mode & 0o7777, file.st_mtime_ns) == (0o644, 10**18)
    assert {path.stat().st_mode & 0o7777 for path in (place.src / "pkg", place.src / "pkg" / "deep")} == {0o755}


def test_no_set_uid_and_nobody_else_may_write(place: HostRun) -> None:
    place.root.mkdir(parents=True)
    place.source_archive.write_bytes(SOURCE_HEADER.pack(1, 0, 0o6777, 0, 0) + b"a")
    source_unpacking.unpack_source(place, source(place))
    assert (place.src / "a").stat().st_mode & 0o7777 == 0o755


def test_a_large_file(place: HostRun) -> None:
    content = "0123456789abcde\n" * (3 * source_unpacking.CHUNK_BYTES // 16) + "end"
    archive(place, ("weights", content, ""), ("z", "after", ""))
    source_unpacking.unpack_source(place, source(place))
    assert (place.src / "weights").read_text() == content
    assert (place.src / "z").read_text() == "after"


def test_files_of_an_interrupted_preparation_are_replaced(place: HostRun) -> None:
    archive(place, ("a", "whole", ""), ("link", "", "a"))
    place.src.mkdir()
    (place.src / "a").write_text("a part of something longer")
    (place.src / "link").symlink_to("/nowhere")
    source_unpacking.unpack_source(place, source(place))
    assert (place.src / "a").read_text() == (place.src / "link").read_text() == "whole"


def test_links_on_the_way_are_not_followed(place: HostRun, tmp_path: Path) -> None:
    archive(place, ("pkg/a", "new", ""), ("pkg/b", "new", ""))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    place.src.mkdir()
    (place.src / "pkg").symlink_to(elsewhere)
    with pytest.raises(NotADirectoryError):
        source_unpacking.unpack_source(place, source(place))
    assert list(elsewhere.iterdir()) == []
    (place.src / "pkg").unlink()
    (elsewhere / "b").write_text("theirs")
    (place.src / "pkg").mkdir()
    (place.src / "pkg" / "b").symlink_to(elsewhere / "b")
    source_unpacking.unpack_source(place, source(place))
    assert (elsewhere / "b").read_text() == "theirs"
    assert (place.src / "pkg" / "b").read_text() == "new"


@pytest.mark.parametrize("name", ["/etc/passwd", "../up", "a/../../up", "a//b", "a/.", "..", "a/"])
def test_paths_that_lead_out_of_the_tree(place: HostRun, name: str) -> None:
    archive(place, (name, "content", ""))
    with pytest.raises(Refused, match="a file with the path"):
        source_unpacking.unpack_source(place, source(place))
    assert not (place.root / ".complete-d1").exists()


@pytest.mark.parametrize("size", [5, 25, 30, 40])
def test_an_archive_that_is_cut_off(place: HostRun, size: int) -> None:
    archive(place, ("train.py", "print(1)", ""))
    os.truncate(place.source_archive, size)
    with pytest.raises(Refused, match="ends within a file"):
        source_unpacking.unpack_source(place, source(place))
    assert not (place.root / ".complete-d1").exists()


def test_a_source_that_does_not_appear(place: HostRun) -> None:
    with pytest.raises(Refused, match=r"the staged source did not appear at .* within 0 s") as caught:
        source_unpacking.unpack_source(place, source(place, role="wait"))
    assert "same file system" in caught.value.hint


def test_a_source_that_is_being_unpacked_is_waited_for(place: HostRun) -> None:
    """A shared directory that waits for its disk takes minutes for some thousand files."""
    place.src.mkdir(parents=True)
    later = threading.Timer(0.8, (place.root / ".complete-d1").touch)
    later.start()
    source_unpacking.unpack_source(place, source(place, role="wait", wait_s=0.1))
    assert (place.root / ".complete-d1").exists()
    later.join()


def test_waiting_ends_with_the_order(place: HostRun) -> None:
    place.src.mkdir(parents=True)
    end = time.monotonic() + 0.5
    with pytest.raises(Refused, match="withdrawn") as caught:
        source_unpacking.unpack_source(
            place, source(place, role="wait", wait_s=0.1), withdrawn=lambda: time.monotonic() > end
        )
    assert caught.value.kind == "withdrawn"


def test_without_a_source_nothing_happens(place: HostRun) -> None:
    source_unpacking.unpack_source(place, spec())
    assert not place.root.exists()
