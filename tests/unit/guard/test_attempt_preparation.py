"""Making a host ready: files, source, secrets, containers."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import attempt_directories, attempt_preparation, guard_start
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun
from tests.unit.guard.test_attempt_directories import spec
from tests.unit.guard.test_source_unpacking import source

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    return HostRun(tmp_path / "state" / "runs" / "r1" / "1.h1")


def test_root_that_is_nobody_is_told_what_helps(
    place: HostRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an NFS server with root_squash answers root, made here."""
    shared = str(tmp_path / "shared")

    def squashed(*_: object) -> None:
        raise PermissionError(13, "Permission denied", shared)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(attempt_directories, "make_dir", squashed)
    with pytest.raises(Refused, match="Permission denied") as refused:
        attempt_preparation.prepare(place, spec(make_dirs=[{"path": shared, "mode": 0o700}]), {}, {})
    assert "log in as the directory's owner" in refused.value.hint


def test_a_broken_archive_is_a_refusal_and_leaves_nothing(place: HostRun) -> None:
    place.root.mkdir(parents=True)
    place.source_archive.write_bytes(b"no archive" * 100)
    with pytest.raises(Refused, match="cannot prepare"):
        attempt_preparation.prepare(place, source(place), {}, {})
    assert not place.root.exists()


def test_a_systemd_that_does_not_answer_is_a_refusal_and_leaves_nothing(
    place: HostRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its secrets and containers would stay without a guard, and the channel would end."""
    program = tmp_path / "systemd-run"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(guard_start, "SYSTEMD_S", 0.5)
    monkeypatch.setattr(
        guard_start, "start_guard", lambda place, **_: guard_start._start_unit("ddp-play-test", ["true"], place)
    )
    with pytest.raises(Refused, match=r"systemd-run did not answer within 0\.5 s"):
        attempt_preparation.prepare(place, spec(), {"TOKEN": "hunter2"}, {})
    assert not place.root.exists()
    assert not place.secrets.exists()


def test_no_command_that_times_out_ends_the_channel(place: HostRun, monkeypatch: pytest.MonkeyPatch) -> None:
    def times_out(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("program", 30)

    monkeypatch.setattr(guard_start, "start_guard", times_out)
    with pytest.raises(Refused, match="cannot prepare: Command 'program' timed out"):
        attempt_preparation.prepare(place, spec(), {"TOKEN": "hunter2"}, {})
    assert not place.root.exists()
    assert not place.secrets.exists()


def test_secrets_are_files_for_the_owner(place: HostRun) -> None:
    attempt_preparation.write_secrets(place, spec(), {"TOKEN": "hunter2\nsecond line"})
    assert (place.secrets / "TOKEN").read_text() == "hunter2\nsecond line"
    assert (place.secrets / "TOKEN").stat().st_mode & 0o777 == 0o400
    assert place.secrets.stat().st_mode & 0o077 == 0


def test_without_secrets_there_is_no_directory(place: HostRun) -> None:
    attempt_preparation.write_secrets(place, spec(), {})
    assert not place.secrets.exists()


def test_a_rendezvous_file_that_exists_already_is_refused(tmp_path: Path) -> None:
    stale = tmp_path / "rendezvous-1"
    attempt_preparation._check_rendezvous(spec(rendezvous_file=str(stale)))
    stale.write_bytes(b"")
    with pytest.raises(Refused, match="exists already: an earlier gang left it") as caught:
        attempt_preparation._check_rendezvous(spec(rendezvous_file=str(stale)))
    assert "remove it" in caught.value.hint
    stale.unlink()
    stale.symlink_to(tmp_path / "nowhere")
    with pytest.raises(Refused):
        attempt_preparation._check_rendezvous(spec(rendezvous_file=str(stale)))


def test_ranks_without_mpi_are_refused(tmp_path: Path) -> None:
    rank = {"rank": 0, "argv": [str(tmp_path / "python3")], "env": {}}
    with pytest.raises(Refused, match=r"no MPI for the ranks: .*No such file") as caught:
        attempt_preparation._check_rendezvous(spec(check_mpi=True, ranks=[rank]))
    assert "pip install mpi4py mpich" in caught.value.hint
    attempt_preparation._check_rendezvous(spec(check_mpi=False, ranks=[rank]))
