"""Directories and files that are made, entered and removed although other users change the path meanwhile."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import leftovers
from tests.unit.guard.hostile import as_nobody, attempt, in_time, needs_root, shared_run

if TYPE_CHECKING:
    from pathlib import Path

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
    left = leftovers.clean(place)
    assert not run.exists()
    assert not place.root.exists()
    assert sorted(path.name for path in (tmp_path / "home").iterdir()) == ["rendezvous-1", "thesis"]
    assert len(left) == 1
    assert "symbolic link" in left[0]


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
