"""Layout of an attempt: directories and files, their owners and modes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import attempt_directories
from ddp_play.guard.run_directory import HostRun

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    return HostRun(tmp_path / "state" / "runs" / "r1" / "1.h1")


def spec(**more: Any) -> dict[str, Any]:
    none = {"role": "none", "path": "", "collect": False}
    return {"ranks": [{"rank": 0, "env_file": "A=1\n"}], "source": none, "runtime": "process", "user": None, **more}


def test_the_layout_is_the_owners_alone(place: HostRun) -> None:
    attempt_directories.create_files(place, spec())
    assert (place.env / "rank-0.env").read_text() == "A=1\n"
    assert (place.env / "rank-0.env").stat().st_mode & 0o777 == 0o600
    assert place.log(0).read_bytes() == b""
    for path in (place.root, place.logs, place.control, place.rank_dir(0)):
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_env_file_may_hold_any_bytes(place: HostRun) -> None:
    attempt_directories.create_files(place, spec(ranks=[{"rank": 0, "env_file": "A=" + os.fsdecode(b"\xe9")}]))
    assert (place.env / "rank-0.env").read_bytes() == b"A=\xe9"


def test_directories_are_made_once(place: HostRun, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    rows = [{"path": str(tmp_path / "shared" / ".ddp-play"), "mode": 0o1777}]
    attempt_directories.create_files(place, spec(make_dirs=rows))
    assert (tmp_path / "shared" / ".ddp-play").stat().st_mode & 0o7777 == 0o1777
    (tmp_path / "shared" / ".ddp-play").chmod(0o700)
    attempt_directories.create_files(place, spec(make_dirs=rows))
    assert (tmp_path / "shared" / ".ddp-play").stat().st_mode & 0o7777 == 0o700, "another user's: left as it is"


@pytest.mark.parametrize(
    ("euid", "user", "mode"),
    [(1000, None, 0o700), (1000, 1000, 0o700), (0, 1000, 0o700), (1000, 2000, 0o755), (1000, 0, 0o755)],
)
def test_directories_are_open_only_to_ranks_that_cannot_own_them(
    monkeypatch: pytest.MonkeyPatch, euid: int, user: int | None, mode: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    assert attempt_directories._mode_for(None if user is None else {"uid": user, "gid": user}, 0o700) == mode
