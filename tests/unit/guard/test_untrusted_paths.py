"""Directories and files that are made, entered and removed although other users change the path meanwhile."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import leftovers, untrusted_paths
from ddp_play.guard.untrusted_paths import Below, locate
from tests.unit.guard.hostile import (
    a_link,
    as_nobody,
    attempt,
    in_time,
    needs_root,
    shared_run,
)

pytestmark = needs_root


def test_a_directory_is_not_made_in_what_a_link_leads_to(tmp_path: Path) -> None:
    run = shared_run(tmp_path)
    (tmp_path / "private").mkdir(mode=0o700)
    for name in ("src", "private/src"):
        as_nobody(run, f"ln -s {tmp_path / name} {name.partition('/')[0]}")
        with pytest.raises(OSError, match="symbolic link"):
            attempt(tmp_path, make_dirs=[{"path": str(run / name), "mode": 0o700}])
    assert list((tmp_path / "private").iterdir()) == []
    assert (tmp_path / "private").stat().st_uid == 0


def test_the_directory_of_all_runs_stays_roots(tmp_path: Path) -> None:
    """Its owner could rename and replace the directories of other users' runs."""
    (tmp_path / "shared").mkdir()
    attempt(tmp_path, make_dirs=[{"path": str(tmp_path / "shared" / ".ddp-play"), "mode": 0o1777}])
    made = (tmp_path / "shared" / ".ddp-play").stat()
    assert (made.st_uid, made.st_mode & 0o7777) == (0, 0o1777)


def test_a_run_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    run = shared_run(tmp_path)
    os.chown(run, 12345, 12345)
    with pytest.raises(OSError, match=r"belongs to user 12345, not to"):
        attempt(tmp_path, make_dirs=[{"path": str(run), "mode": 0o711}])


def test_the_mark_of_an_attempt_is_not_written_elsewhere(tmp_path: Path) -> None:
    run = shared_run(tmp_path)
    (tmp_path / "etc").mkdir()
    target = tmp_path / "etc" / "passwd"
    target.write_text("root:x:0:0")
    as_nobody(run, f"ln -s {target} .attempt")
    attempt(tmp_path, head=True, run_paths=[str(run)])
    assert target.read_text() == "root:x:0:0"
    assert leftovers.newest_attempt(run) == 1
    as_nobody(run, "rm -f .attempt; mkfifo .attempt")
    assert in_time(lambda: [leftovers.newest_attempt(run)]) == [0]


# -- one directory or file -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "base", "parts"),
    [
        ("/state/runs/night/1.h1", "/state/runs/night", ("1.h1",)),
        ("/shared/.ddp-play/night/src", "/shared", (".ddp-play", "night", "src")),
        ("/a/.ddp-play/b/.ddp-play/night", "/a/.ddp-play/b", (".ddp-play", "night")),
    ],
)
def test_what_ranks_can_change_begins_at_the_directory_of_all_runs(
    path: str, base: str, parts: tuple[str, ...]
) -> None:
    assert locate(Path(path)) == Below(Path(base), parts)


def test_the_times_of_a_link_are_its_own(tmp_path: Path) -> None:
    link = a_link(tmp_path)
    for path in (tmp_path / "file", link):
        os.utime(path, (1000, 1000), follow_symlinks=False)
    untrusted_paths.touch(locate(link))
    assert (tmp_path / "file").stat().st_mtime == 1000
    assert link.lstat().st_mtime > 1000


@pytest.mark.usefixtures("no_descriptor_left")
def test_a_directory_is_made_for_its_owner_once(tmp_path: Path) -> None:
    run = shared_run(tmp_path)
    for _ in range(2):
        untrusted_paths.make_directory(locate(run / "src"), 0o2750, (65534, 65533), {0, 65534})
    made = (run / "src").stat()
    assert (made.st_uid, made.st_gid, stat.S_IMODE(made.st_mode)) == (65534, 65533, 0o2750)
    (run / "src").chmod(0o700)
    os.chown(run / "src", 12345, 12345)
    with pytest.raises(OSError, match="belongs to user 12345, not to root or nobody"):
        untrusted_paths.make_directory(locate(run / "src"), 0o2750, None, {0, 65534})


@pytest.mark.usefixtures("no_descriptor_left")
def test_a_directory_below_one_of_another_user_is_not_entered(tmp_path: Path) -> None:
    """`owners` is about every component below the directory of all runs, which belongs to whoever came first."""
    run = shared_run(tmp_path)
    os.chown(run.parent, 12345, 12345)
    with untrusted_paths.directory(locate(run), {65534}) as fd:
        assert os.fstat(fd).st_ino == run.stat().st_ino
    with (
        pytest.raises(OSError, match="belongs to nobody, not to root") as caught,
        untrusted_paths.directory(locate(run), {0}),
    ):
        pass
    assert caught.value.filename == str(run)


# -- trees ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_descriptor_left")
def test_a_walk_names_every_directory_that_it_leaves_out(tmp_path: Path) -> None:
    for name in ("a/b/c", "skipped/a", "b"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("file", "a/file", "a/b/file", "a/b/c/too-deep", "skipped/file"):
        (tmp_path / name).touch()
    (tmp_path / "b" / "link").symlink_to(tmp_path / "a")
    top = os.open(tmp_path, os.O_RDONLY)
    found: list[tuple[str, list[str], Any]] = []
    for where, fd, files, error in untrusted_paths.walk(top, 2, "skipped"):
        assert error is not None or os.path.samestat(os.fstat(fd), (tmp_path / where).stat())
        found.append((where, files, error and error.strerror))
    os.close(top)
    assert found == [
        ("", ["file"], None),
        ("a", ["file"], None),
        ("a/b", ["file"], None),
        ("a/b/c", [], "is nested deeper than 2 directories"),
        ("b", ["link"], None),
    ]
