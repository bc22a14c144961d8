"""The socket that a dead session has left, and that of a living one."""

from __future__ import annotations

import fcntl
import socket
from pathlib import Path

import pytest

from ddp_play.bundle.paths import RunPaths
from ddp_play.run.session_place import SessionPlace
from ddp_play.run.session_request import start_run


@pytest.mark.parametrize("lives", [False, True])
def test_only_the_socket_of_a_dead_session_is_removed(lives: bool, tmp_path: Path) -> None:
    """A socket that nobody of this machine listens on may be that of another one which shares the home."""
    place = SessionPlace(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(place.address))
    with place.lock.open("a") as lock:
        if lives:
            fcntl.flock(lock, fcntl.LOCK_EX)
        answer = start_run(place, RunPaths(tmp_path / "run"), b"", take_over=False)
    assert answer.pid == 0
    assert "has died" in answer.note
    assert place.address.exists() is lives
