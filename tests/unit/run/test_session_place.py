"""Where a session is, and of which build."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from ddp_play.bundle import run_locks
from ddp_play.run import session_place
from ddp_play.run.session_place import SessionPlace


def test_an_inventory_has_one_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path))
    assert SessionPlace.of(("/inv",), "/a") == SessionPlace.of(("/inv",), "/b")
    assert SessionPlace.of(("/inv",), "/a") != SessionPlace.of(("/other",), "/a")
    assert SessionPlace.of((), "/a") != SessionPlace.of((), "/b")
    assert SessionPlace.of((), "/a").root.parent == tmp_path / "sessions"
    here = SessionPlace.of(("/inv",), "/a")
    monkeypatch.setattr(socket, "gethostname", lambda: "login2")
    assert SessionPlace.of(("/inv",), "/a") != here  # a home that several controllers share


def test_a_place_tells_who_has_it(tmp_path: Path) -> None:
    place = SessionPlace(tmp_path)
    assert place.holder == 0, "there is no lock"
    place.lock.write_text("7")
    place.address.touch()
    assert place.holder == 0, "it was killed"
    with place.take():
        assert place.holder == os.getpid()
        assert not place.address.exists(), "nobody listens there"
        with pytest.raises(BlockingIOError):
            place.take()
    with place.lock.open("a") as held:
        run_locks.lock(held)
        place.lock.write_text("")
        assert place.holder == 0, "one of an earlier version"


def test_a_changed_module_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugins = tmp_path / session_place.PARTS[0]
    plugins.mkdir(parents=True)
    monkeypatch.setattr(session_place, "collection_root", lambda: tmp_path)
    (plugins / "run.py").write_text("one")
    before = session_place.build()
    assert session_place.build() == before
    (plugins / "run.py").write_text("other")
    assert session_place.build() != before
    changed = session_place.build()
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert session_place.build() != changed
