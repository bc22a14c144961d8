"""Newest file of a glob: files, directories, links, and the rights of the ranks' user."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import progress_files
from tests.unit.guard.hostile import USER, needs_root

if TYPE_CHECKING:
    from collections.abc import Iterator


def write(path: Path, age_s: float, text: str = "x") -> Path:
    """A file that was written so long ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (time.time() - age_s,) * 2)
    return path


def found(pattern: object, user: dict[str, object] | None = None) -> Any:
    return progress_files.newest({"progress": str(pattern), "user": user})


def test_without_a_name_nothing_is_read() -> None:
    assert progress_files.newest({}) is None
    assert progress_files.newest({"progress": ""}) is None


def test_the_newest_of_several_files(tmp_path: Path) -> None:
    write(tmp_path / "step-1.pt", 100)
    newest = write(tmp_path / "step-2.pt", 60, "weights")
    write(tmp_path / "step-3.pt", 90)
    write(tmp_path / "log.txt", 1)
    row = found(tmp_path / "*.pt")
    assert (row["path"], row["size"], row["mtime_ns"]) == (str(newest), 7, newest.stat().st_mtime_ns)
    assert 60 <= row["age_s"] < 90


def test_files_below_a_directory_count_and_the_directory_does_not(tmp_path: Path) -> None:
    deep = write(tmp_path / "ckpt" / "step-1" / "rank-0" / "weights.pt", 100)
    (tmp_path / "ckpt" / "step-2").mkdir()
    assert found(tmp_path / "ckpt")["path"] == str(deep)
    assert found(tmp_path / "ckpt" / "step-2") is None
    assert found(tmp_path / "**" / "*.pt")["path"] == str(deep)


def test_links_lead_to_files_and_dead_links_are_ignored(tmp_path: Path) -> None:
    target = write(tmp_path / "step-1.pt", 100)
    (tmp_path / "latest").symlink_to(target)
    (tmp_path / "later").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "lat-fifo")
    assert found(tmp_path / "lat*")["mtime_ns"] == target.stat().st_mtime_ns
    assert found(tmp_path / "nothing-*") is None


def test_a_huge_tree_is_read_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_files, "MAX_ENTRIES", 3)
    for number in range(10):
        write(tmp_path / str(number), 10)
    assert found(tmp_path / "*") is not None
    monkeypatch.setattr(progress_files, "READ_S", -1.0)
    assert found(tmp_path / "*") is not None


@pytest.fixture
def passable() -> Iterator[Path]:
    """A directory that every user may enter; pytest's own are for one user."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@needs_root
def test_files_are_read_with_the_rights_of_the_ranks_user(passable: Path) -> None:
    """Otherwise a rank learns from the verdict which files of others exist."""
    open_one = write(passable / "open" / "a.pt", 100)
    write(passable / "closed" / "b.pt", 1)
    (passable / "closed").chmod(0o700)
    assert found(passable / "*" / "*.pt", USER)["path"] == str(open_one)
    assert found(passable / "closed" / "*.pt", USER) is None
    assert found(passable / "closed" / "*.pt") is not None
    assert os.geteuid() == 0
