"""Locks on a shared directory, with real files: held, not seen, not shared."""

from __future__ import annotations

import fcntl
from typing import TYPE_CHECKING

from ddp_play.guard import shared_lock_check

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_lock_held_elsewhere_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "rendezvous-1.lock"
    held = shared_lock_check.Held(path, "word")
    assert shared_lock_check.problem(path, "word") == ""
    assert "has other content here" in shared_lock_check.problem(path, "other")
    held.close()
    assert not path.exists()


def test_a_lock_that_is_not_seen(tmp_path: Path) -> None:
    """What a mount with local locks shows: the file is there, and free."""
    path = tmp_path / "lock"
    path.write_text("word")
    assert "a lock that another host holds is not seen" in shared_lock_check.problem(path, "word")
    with path.open() as handle:
        fcntl.flock(handle, fcntl.LOCK_SH)
        assert shared_lock_check.problem(path, "word") == ""


def test_a_directory_that_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_lock_check, "PATIENCE_S", 0.2)
    assert "not the same file system" in shared_lock_check.problem(tmp_path / "gone" / "lock", "word")
