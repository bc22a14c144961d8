"""Secrets as files in memory, in a directory that a neighbour may have put there first."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import (
    attempt_preparation,
    container_creation,
    container_rank,
    leftovers,
    ranks,
    run_directory,
    secret_files,
)
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun, user_name

if TYPE_CHECKING:
    from collections.abc import Callable

REAL_BASE = run_directory.secrets_base
SECRETS = {"TOKEN": "hunter2\nsecond line"}
NOBODY = 65534


@pytest.fixture
def base() -> Path:
    """The base of secrets of this test; its parent stands for /dev/shm."""
    found = run_directory.secrets_base()
    found.parent.chmod(0o1777)
    return found


@pytest.fixture
def place() -> HostRun:
    """One attempt on this host."""
    return HostRun.at("r1", 1, "h1")


def write(place: HostRun) -> None:
    attempt_preparation.write_secrets(place, {"user": None}, SECRETS)


def a_link(base: Path) -> None:
    (base.parent / "elsewhere").mkdir()
    base.symlink_to(base.parent / "elsewhere")


def a_dangling_link(base: Path) -> None:
    base.symlink_to(base.parent / "nowhere")


def a_file(base: Path) -> None:
    base.touch()


def a_directory_for_all(base: Path) -> None:
    base.mkdir()
    base.chmod(0o777)


def a_directory_for_the_group(base: Path) -> None:
    base.mkdir()
    base.chmod(0o770)


def a_parent_where_names_are_anybodys(base: Path) -> None:
    base.parent.chmod(0o777)


def anothers(base: Path) -> None:
    base.mkdir()
    base.chmod(0o755)
    os.chown(base, NOBODY, NOBODY)


PUT_THERE: list[tuple[Callable[[Path], None], str]] = [
    (a_link, "is a symbolic link of"),
    (a_dangling_link, "is a symbolic link of"),
    (a_file, "is a file of"),
    (a_directory_for_all, "with mode 0777"),
    (a_directory_for_the_group, "with mode 0770"),
    (a_parent_where_names_are_anybodys, "every user may rename files there (mode 0777)"),
    *([(anothers, f"is a directory of {user_name(NOBODY)} with mode 0755")] if os.geteuid() == 0 else []),
]


@pytest.mark.parametrize(("put", "words"), PUT_THERE, ids=[put.__name__ for put, _ in PUT_THERE])
def test_what_a_neighbour_put_there_is_refused_and_gets_nothing(
    base: Path, place: HostRun, put: Callable[[Path], None], words: str
) -> None:
    put(base)
    with pytest.raises(Refused) as caught:
        write(place)
    assert words in str(caught.value)
    assert str(base if "rename" not in words else base.parent) in str(caught.value)
    assert caught.value.hint
    assert list(base.parent.rglob("TOKEN*")) == []
    spec = {"image": "image", "pull_timeout_s": 5.0}
    with pytest.raises(Refused):
        container_creation._pull(place, spec, {"server": "r", "username": "u", "password": "p"}, lambda: False)
    assert list(base.parent.rglob("config.json*")) == []


def test_cleaning_does_not_follow_a_link_either(base: Path, place: HostRun) -> None:
    a_link(base)
    kept = base.parent / "elsewhere" / place.secrets.name / "kept"
    kept.parent.mkdir()
    kept.touch()
    assert leftovers.clean(place).left == []
    assert kept.exists()


def test_the_usual_way_and_back(base: Path, place: HostRun) -> None:
    before = os.umask(0o077)
    try:
        write(place)
        write(place)  # prepared again with another port
    finally:
        os.umask(before)
    assert base.stat().st_mode & 0o7777 == 0o711, "the ranks' user passes, and sees no names"
    assert secret_files.read(place.secrets, "TOKEN") == SECRETS["TOKEN"]
    config = secret_files.docker_config(place.secrets)
    secret_files.write(config, {"config.json": b"{}"})  # a pull that was killed
    assert leftovers.clean(place).left == []
    assert not base.exists()


def rank_of(place: HostRun, *names: str) -> ranks.Rank:
    place.logs.mkdir(parents=True)
    argv = ["/bin/sh", "-c", 'printf "%s %s" "$PLAIN" "$TOKEN"']
    spec = {"rank": 0, "argv": argv, "env": {"PLAIN": "a"}, "secret_env": list(names), "workdir": "/"}
    rank = container_rank.make(spec, place)
    rank.start()
    return rank


def test_a_process_gets_its_secrets_from_memory(base: Path, place: HostRun) -> None:
    attempt_preparation.write_secrets(place, {}, {"TOKEN": "two\nlines " + os.fsdecode(b"\xe9")})
    rank = rank_of(place, "TOKEN")
    assert os.waitpid(rank.row["pid"], 0)[1] == 0
    assert place.log(0).read_bytes() == b"a two\nlines \xe9"
    assert "two" not in str(rank.spec)


def test_a_process_whose_secret_is_gone_does_not_start(base: Path, place: HostRun) -> None:
    rank = rank_of(place, "TOKEN")
    assert (rank.row["state"], rank.row["exit_code"]) == ("exited", 126)
    assert "cannot read a secret of this rank" in place.log(0).read_text()


def test_the_base_stays_while_another_run_has_secrets(base: Path, place: HostRun) -> None:
    other = HostRun.at("r2", 1, "h1")
    for one in (place, other):
        write(one)
    leftovers.clean(place)
    assert (other.secrets / "TOKEN").exists()
    leftovers.clean(other)
    assert not base.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_ranks_user_reads_its_secrets_and_puts_nothing_there(place: HostRun) -> None:
    """Root writes there again for the next port: whoever could put a link there would be given what it leads to."""
    attempt_preparation.write_secrets(place, {"user": {"uid": NOBODY, "gid": NOBODY, "groups": []}}, SECRETS)
    directory, file = place.secrets.stat(), (place.secrets / "TOKEN").stat()
    assert (directory.st_uid, directory.st_gid, directory.st_mode & 0o777) == (0, NOBODY, 0o750)
    assert (file.st_uid, file.st_gid, file.st_mode & 0o777) == (NOBODY, NOBODY, 0o400)


def test_a_base_that_another_run_takes_away_meanwhile(
    base: Path, place: HostRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir
    taken: list[str] = []

    def mkdir(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if dir_fd is not None and not taken:
            taken.append(path)
            base.rmdir()
        real(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", mkdir)
    write(place)
    assert taken
    assert secret_files.read(place.secrets, "TOKEN") == SECRETS["TOKEN"]


def test_a_file_that_is_exchanged_while_it_is_written_keeps_its_mode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory may be the ranks' user's: what root changes is the file it made, not what has its name now."""
    victim = tmp_path / "victim"
    victim.touch()
    victim.chmod(0o644)
    real = tempfile.mkstemp

    def mkstemp(**options: Any) -> tuple[int, str]:
        fd, name = real(**options)
        Path(name).unlink()
        Path(name).symlink_to(victim)
        return fd, name

    monkeypatch.setattr(tempfile, "mkstemp", mkstemp)
    run_directory.atomic_write(tmp_path / "file", b"x", 0o600)
    assert victim.stat().st_mode & 0o777 == 0o644


def test_each_user_has_a_base_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    assert REAL_BASE() == Path("/dev/shm/ddp-play-1234")


def test_a_base_that_is_taken_away_again_and_again_is_an_error(
    base: Path, place: HostRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rank must not start without its secrets."""
    real = os.mkdir
    tried: list[str] = []

    def mkdir(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if dir_fd is not None:
            tried.append(path)
            base.rmdir()
        real(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", mkdir)
    with pytest.raises(FileNotFoundError):
        write(place)
    assert len(tried) == secret_files.TRIES


@pytest.mark.usefixtures("no_descriptor_left")
@pytest.mark.parametrize("user", [None, {"uid": os.geteuid(), "gid": 12345, "groups": []}])
def test_secrets_of_ranks_of_this_user_are_for_no_other(place: HostRun, user: dict[str, Any] | None) -> None:
    before = os.umask(0)
    try:
        attempt_preparation.write_secrets(place, {"user": user}, SECRETS)
    finally:
        os.umask(before)
    assert place.secrets.stat().st_mode & 0o7777 == 0o700
    assert (place.secrets / "TOKEN").stat().st_mode & 0o7777 == 0o400
    assert place.secrets.stat().st_gid != 12345


def test_secrets_that_cannot_be_removed_are_named(base: Path, place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(path: str) -> None:
        raise OSError(16, "Device or resource busy", path)

    write(place)
    monkeypatch.setattr(shutil, "rmtree", busy)
    assert secret_files.remove(place.secrets) == f"{place.secrets}: Device or resource busy"


def test_a_base_that_others_may_write_to_is_left_alone_when_secrets_are_removed(base: Path, place: HostRun) -> None:
    write(place)
    base.chmod(0o777)
    assert secret_files.remove(place.secrets) == ""
    assert (place.secrets / "TOKEN").exists()
