"""Directories and files that are made, entered and removed although other users change the path meanwhile."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import leftovers, untrusted_paths
from ddp_play.guard.untrusted_paths import Below, locate
from tests.unit.guard.hostile import (
    a_fifo,
    a_link,
    as_nobody,
    attempt,
    error_of,
    in_time,
    needs_root,
    shared_run,
    some_file,
)

if TYPE_CHECKING:
    pass

pytestmark = needs_root


def test_a_tree_deeper_than_pythons_stack_is_removed(tmp_path: Path) -> None:
    run = shared_run(tmp_path)
    fd = os.open(run, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    try:
        assert leftovers._remove_tree(run) == []
        assert not run.exists()
    finally:
        subprocess.run(["rm", "-rf", run], check=True)  # pytest cannot


def test_removal_of_a_directory_that_is_swapped_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    for number in range(20):
        (tmp_path / "home" / f"thesis-{number}").write_bytes(b"years of work")
    for _ in range(15):
        run = shared_run(tmp_path)
        as_nobody(run, f"for n in 1 2 3 4 5 6 7 8; do mkdir -p a$n/b; touch a$n/b/x; done; ln -s {tmp_path / 'home'} l")
        over = threading.Event()

        def swap(fd: int, over: threading.Event = over) -> None:
            while not over.is_set():
                for number in range(1, 9):
                    for old, new in ((f"a{number}", f"z{number}"), ("l", f"a{number}"), (f"a{number}", "l")):
                        try:
                            os.rename(old, new, src_dir_fd=fd, dst_dir_fd=fd)
                        except OSError:
                            continue

        fd = os.open(run, os.O_RDONLY)
        thread = threading.Thread(target=swap, args=(fd,))
        thread.start()
        leftovers._remove_tree(run)
        over.set()
        thread.join()
        os.close(fd)
        leftovers._remove_tree(run)
    assert len(list((tmp_path / "home").iterdir())) == 20


def test_removal_of_a_run_follows_no_link(tmp_path: Path) -> None:
    run = shared_run(tmp_path)
    place = attempt(tmp_path, head=True, run_paths=[str(run)], owned_paths=[str(run / "sub" / "rendezvous-1")])
    (tmp_path / "home").mkdir(mode=0o700)
    for name in ("thesis", "rendezvous-1"):
        (tmp_path / "home" / name).write_bytes(b"years of work")
    as_nobody(run, f"mkdir -p a/b; ln -s {tmp_path / 'home'} a/b/link; ln -s {tmp_path / 'home'} sub")
    as_nobody(place.rank_dir(0), f"ln -s {tmp_path / 'home'} link")
    left = leftovers.clean(place).left
    assert not run.exists()
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["rendezvous-1", "thesis"]
    assert len(left) == 1
    assert "symbolic link" in left[0]
    assert [path.name for path in place.root.iterdir()] == ["spec.json"], "what is left has its record"
    assert leftovers.clean(place).left == [], "the link went with the directory"
    assert not place.root.exists()


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


@pytest.mark.usefixtures("no_descriptor_left")
def test_a_tree_is_removed_with_all_kinds_of_files_and_its_neighbours_stay(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b" / "c").mkdir(parents=True)
    (tree / "a" / "b" / "file").touch()
    a_fifo(tree / "a")
    (tree / "a" / "link").symlink_to(some_file(tmp_path))
    untrusted_paths.remove(locate(tree))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    untrusted_paths.remove(locate(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        untrusted_paths.remove(locate(tmp_path / "file"))


def test_a_directory_that_others_keep_filling_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(untrusted_paths, "MAX_PASSES", 3)
    (tmp_path / "tree").mkdir()
    some_file(tmp_path / "tree")
    real = os.unlink

    def filled_again(name: str, *, dir_fd: int) -> None:
        real(name, dir_fd=dir_fd)
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=dir_fd))

    monkeypatch.setattr(os, "unlink", filled_again)
    caught = error_of(untrusted_paths.remove, locate(tmp_path / "tree"))
    assert caught.errno == errno.EBUSY
    assert "other processes keep writing there" in str(caught)


@pytest.mark.parametrize("depth", ["tree/mounted", "tree/a/mounted"])
def test_what_is_mounted_in_a_tree_stays(tmp_path: Path, depth: str) -> None:
    """The job may have mounted its data set there; the directory is named."""
    point = tmp_path / depth
    point.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "none", point], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        (point / "thesis").touch()
        caught = error_of(untrusted_paths.remove, locate(tmp_path / "tree"))
        assert caught.errno in (errno.EBUSY, errno.EXDEV)
        assert (point / "thesis").exists()
    finally:
        subprocess.run(["umount", point], check=True)
