"""Locks of a run's files: looked at, taken, and taken while somebody looks."""

from __future__ import annotations

import errno
import fcntl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.run_locks import is_locked, lock


def test_is_locked_does_not_keep_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.touch()
    assert not is_locked(path)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert is_locked(path)
    assert not is_locked(path)
    assert not is_locked(tmp_path / "nowhere")


def test_a_lock_that_cannot_be_opened_for_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a read-only disk, and of another user's run."""
    path, opened = tmp_path / "lock", Path.open
    path.touch()

    def read_only(file: Path, mode: str = "r", **more: Any) -> Any:
        if "a" in mode:
            raise OSError(errno.EROFS, "Read-only file system", str(file))
        return opened(file, mode, **more)

    with path.open("a") as handle:
        monkeypatch.setattr(Path, "open", read_only)
        assert not is_locked(path)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert is_locked(path)
    assert not is_locked(path)


def test_those_who_look_do_not_see_each_other(tmp_path: Path) -> None:
    """A session seemed to live while another command looked whether one does."""
    path = tmp_path / "lock"
    path.touch()
    with path.open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert not is_locked(path)


def test_whoever_wants_a_lock_gets_it_after_one_that_only_looked(tmp_path: Path) -> None:
    """`ps` in the moment in which `attach` takes a run over: it was refused as supervised by another process."""
    path = tmp_path / "lock"
    with path.open("a") as looking, path.open("a") as wanting:
        fcntl.flock(looking, fcntl.LOCK_EX)
        threading.Timer(0.1, looking.close).start()
        lock(wanting, within_s=30)
        assert is_locked(path)


def test_a_lock_that_is_held_is_refused_in_time(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with path.open("a") as holding, path.open("a") as wanting:
        lock(holding)
        began = time.monotonic()
        with pytest.raises(BlockingIOError):
            lock(wanting, within_s=0.1)
        assert time.monotonic() - began < 10
