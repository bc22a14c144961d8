"""Trees of ranks are removed, whatever is in them and whoever changes them meanwhile; nothing else is."""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import threading
from pathlib import Path

import pytest

from ddp_play.guard import leftovers, tree_removal
from ddp_play.guard.untrusted_paths import Below, locate
from tests.unit.guard.hostile import (
    NOBODY,
    a_fifo,
    as_nobody,
    attempt,
    error_of,
    needs_root,
    shared_run,
    some_file,
)

pytestmark = needs_root
PR_SET_DUMPABLE = 4


def removed_by_nobody(run: Path, *names: str) -> list[str]:
    """Remove what is in a directory with the rights of its owner; by name the error, or nothing."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.chdir(run)
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # /proc/self is this user's, as after an exec
            for name in names:
                try:
                    tree_removal.remove(Below(Path("/proc/self/cwd"), (name,)))
                    os.write(writing, b"\n")
                except OSError as error:
                    os.write(writing, f"{error}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answers:
        told = answers.read().splitlines()
    os.waitpid(pid, 0)
    return told


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


@pytest.mark.usefixtures("no_descriptor_left")
def test_a_tree_is_removed_with_all_kinds_of_files_and_its_neighbours_stay(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "a" / "b" / "c").mkdir(parents=True)
    (tree / "a" / "b" / "file").touch()
    a_fifo(tree / "a")
    (tree / "a" / "link").symlink_to(some_file(tmp_path))
    tree_removal.remove(locate(tree))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    tree_removal.remove(locate(tmp_path / "file"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        tree_removal.remove(locate(tmp_path / "file"))


def test_a_directory_that_others_keep_filling_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_removal, "MAX_PASSES", 3)
    (tmp_path / "tree").mkdir()
    some_file(tmp_path / "tree")
    real = os.unlink

    def filled_again(name: str, *, dir_fd: int) -> None:
        real(name, dir_fd=dir_fd)
        os.close(os.open(name, os.O_CREAT | os.O_WRONLY, dir_fd=dir_fd))

    monkeypatch.setattr(os, "unlink", filled_again)
    caught = error_of(tree_removal.remove, locate(tmp_path / "tree"))
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
        caught = error_of(tree_removal.remove, locate(tmp_path / "tree"))
        assert caught.errno in (errno.EBUSY, errno.EXDEV)
        assert (point / "thesis").exists()
    finally:
        subprocess.run(["umount", point], check=True)


CLOSED = """
mkdir -p cache/module/v1/empty cache/module/v2/inner other/inner
touch cache/module/v1/source cache/file other/inner/file
chmod 0555 cache/module/v1/empty cache/module/v1 cache/module other
chmod 0 cache/module/v2 other/inner
chmod 0 cache
"""


def test_a_user_removes_what_its_ranks_have_closed(tmp_path: Path) -> None:
    """As caches of packages are, so that nothing in them changes. Where the program was not root, they stayed."""
    run = shared_run(tmp_path)
    as_nobody(run, CLOSED)
    assert removed_by_nobody(run, "cache", "other") == ["", ""]
    assert list(run.iterdir()) == []


def test_the_directory_of_another_user_stays_as_it_is(tmp_path: Path) -> None:
    run = shared_run(tmp_path)
    as_nobody(run, "mkdir -p tree/closed; chmod 0555 tree/closed tree")
    other = tmp_path / "other"
    other.mkdir(mode=0o555)
    (other / "file").touch()
    (run / "tree" / "link").symlink_to(other)
    (run / "tree" / "of-root").mkdir(mode=0o555)
    (run / "tree" / "of-root" / "file").touch()
    assert removed_by_nobody(run, "tree") == ["[Errno 13] Permission denied: '/proc/self/cwd/tree/of-root/file'"]
    for directory in (other, run / "tree" / "of-root"):
        assert (directory / "file").exists()
        assert directory.stat().st_mode & 0o777 == 0o555
