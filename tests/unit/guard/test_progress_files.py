"""Newest file of a glob: files, directories, links, and the rights of the ranks' user."""

from __future__ import annotations

import glob
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import progress_files
from ddp_play.guard.untrusted_paths import Below, directory
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


def test_no_link_is_followed_and_each_counts_with_its_own_time(tmp_path: Path) -> None:
    """Ranks write there: a link could lead anywhere. One that is made anew for each checkpoint shows progress."""
    write(tmp_path / "elsewhere" / "secret.pt", 1)
    write(tmp_path / "run" / "step-1.pt", 100)
    (tmp_path / "run" / "into").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "run" / "latest").symlink_to(tmp_path / "elsewhere" / "secret.pt")
    os.utime(tmp_path / "run" / "latest", (1000, 1000), follow_symlinks=False)
    os.mkfifo(tmp_path / "run" / "late-fifo")
    assert found(tmp_path / "run" / "lat*")["mtime_ns"] == 1000 * 10**9
    assert found(tmp_path / "run" / "**" / "*.pt")["path"] == str(tmp_path / "run" / "step-1.pt")
    assert found(tmp_path / "run" / "into" / "*.pt")["path"].endswith("secret.pt"), "the job names this directory"
    assert found(tmp_path / "run" / "i*" / "*.pt") is None
    assert found(tmp_path / "run" / "nothing-*") is None


def test_a_link_in_place_of_a_directory_of_a_shared_run_is_unknown(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere" / "secret.pt", 1)
    run = tmp_path / ".ddp-play" / "night"
    run.mkdir(parents=True)
    (run / "src").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        found(run / "src" / "*.pt")


@pytest.mark.parametrize(
    "pattern",
    [
        "*.pt",
        "a/*.pt",
        "*/b/*",
        "**/*.pt",
        "**/b/**/*.pt",
        "a",
        "a/**",
        "[ab]*",
        ".h*/*",
        "*/.x",
        "**",
        "a/b/2.pt",
        "a/",
    ],
)
def test_patterns_mean_what_they_mean_to_glob(tmp_path: Path, pattern: str) -> None:
    for number, name in enumerate(
        ("1.pt", "a/2.pt", "a/b/2.pt", "a/b/c/3.pt", "a/.x", ".h/4.pt", "a/.h/5.pt", "b/b/6")
    ):
        write(tmp_path / name, 100 - number)
    wanted = set()
    for match in map(Path, glob.glob(f"{tmp_path}/{pattern}", recursive=True)):  # noqa: PTH207 - it is the model
        wanted |= {match} if match.is_file() else {path for path in match.rglob("*") if path.is_file()}
    top, parts = progress_files._split(f"{tmp_path}/{pattern}")
    with directory(Below(top, ())) as fd:
        assert {Path(row["path"]) for row in progress_files._rows(fd, top, parts)} == wanted


def test_what_takes_too_long_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nothing matches: `no new file` would end the run."""
    for number in range(10):
        write(tmp_path / str(number) / "x.txt", 10)
    monkeypatch.setattr(progress_files, "MAX_ENTRIES", 3)
    with pytest.raises(OSError, match="too large a tree"):
        found(tmp_path / "**" / "*.pt")
    assert found(tmp_path / "*.pt") is None, "other directories are not entered"
    monkeypatch.setattr(progress_files, "READ_S", -1.0)
    with pytest.raises(OSError, match="too large a tree"):
        found(tmp_path / "*.pt")


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
    assert found(passable / "open" / "*.pt", USER)["path"] == str(open_one)
    for unreadable in (passable / "*" / "*.pt", passable / "closed" / "*.pt"):
        with pytest.raises(PermissionError):
            found(unreadable, USER)
    assert found(passable / "closed" / "*.pt") is not None
    assert os.geteuid() == 0
