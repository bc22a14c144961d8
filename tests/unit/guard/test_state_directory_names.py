"""The name of a state directory in a directory for all users: nobody redirects or blocks it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import state_directory
from tests.unit.guard.hostile import NOBODY, needs_root


def put_nothing(_path: Path) -> None:
    pass


def put_link(path: Path) -> None:
    (path.parent / "elsewhere").mkdir()
    path.symlink_to(path.parent / "elsewhere")


def put_file(path: Path) -> None:
    path.touch()


def put_open_directory(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def put_their_directory(path: Path) -> None:
    path.mkdir(mode=0o700)
    os.chown(path, NOBODY, NOBODY)


@pytest.mark.parametrize(
    "put",
    [put_nothing, put_link, put_file, put_open_directory, pytest.param(put_their_directory, marks=needs_root)],
)
def test_nobody_redirects_or_blocks_a_directory_of_ours(tmp_path: Path, put: Any) -> None:
    usual = tmp_path / f"ddp-play-{os.geteuid()}"
    put(usual)
    path = state_directory.own_directory(str(tmp_path))
    assert (path == str(usual)) is (put is put_nothing)
    assert state_directory.is_own(os.lstat(path))
    assert Path(path).stat().st_mode & 0o777 == 0o700
    assert state_directory.own_directory(str(tmp_path)) == path, "found again by its owner"
    assert state_directory.find_own(str(tmp_path)) == path


def test_two_processes_make_one_directory(tmp_path: Path) -> None:
    (tmp_path / f"ddp-play-{os.geteuid()}").touch()
    code = "import sys; from ddp_play.guard import state_directory as s; print(s.own_directory(sys.argv[1]))"
    started = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert len({process.communicate(timeout=60)[0] for process in started}) == 1


@pytest.mark.parametrize(("mode", "safe"), [(0o755, True), (0o1777, True), (0o777, False), (0o775, False)])
def test_names_are_protected_by_the_sticky_bit(tmp_path: Path, mode: int, safe: bool) -> None:
    tmp_path.chmod(mode)
    assert state_directory.protected(str(tmp_path)) is safe
