"""Making a host ready: files, source, secrets, containers."""

from __future__ import annotations

import io
import os
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import attempt_preparation
from ddp_play.guard.refusal import Refused
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
    attempt_preparation._create_layout(place, spec())
    assert (place.env / "rank-0.env").read_text() == "A=1\n"
    assert (place.env / "rank-0.env").stat().st_mode & 0o777 == 0o600
    assert place.log(0).read_bytes() == b""
    for path in (place.root, place.logs, place.control, place.rank_dir(0)):
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_env_file_may_hold_any_bytes(place: HostRun) -> None:
    attempt_preparation._create_layout(place, spec(ranks=[{"rank": 0, "env_file": "A=" + os.fsdecode(b"\xe9")}]))
    assert (place.env / "rank-0.env").read_bytes() == b"A=\xe9"


def test_directories_are_made_once(place: HostRun, tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    rows = [{"path": str(tmp_path / "shared" / ".ddp-play"), "mode": 0o1777}]
    attempt_preparation._create_layout(place, spec(make_dirs=rows))
    assert (tmp_path / "shared" / ".ddp-play").stat().st_mode & 0o7777 == 0o1777
    (tmp_path / "shared" / ".ddp-play").chmod(0o700)
    attempt_preparation._create_layout(place, spec(make_dirs=rows))
    assert (tmp_path / "shared" / ".ddp-play").stat().st_mode & 0o7777 == 0o700, "another user's: left as it is"


@pytest.mark.parametrize(
    ("euid", "user", "mode"),
    [(1000, None, 0o700), (1000, 1000, 0o700), (0, 1000, 0o700), (1000, 2000, 0o755), (1000, 0, 0o755)],
)
def test_directories_are_open_only_to_ranks_that_cannot_own_them(
    monkeypatch: pytest.MonkeyPatch, euid: int, user: int | None, mode: int
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    assert attempt_preparation._mode_for(None if user is None else {"uid": user, "gid": user}, 0o700) == mode


def test_root_that_is_nobody_is_told_what_helps(
    place: HostRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an NFS server with root_squash answers root, made here."""
    shared = str(tmp_path / "shared")

    def squashed(*_: object) -> None:
        raise PermissionError(13, "Permission denied", shared)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(attempt_preparation, "_make_dir", squashed)
    with pytest.raises(Refused, match="Permission denied") as refused:
        attempt_preparation.prepare(place, spec(make_dirs=[{"path": shared, "mode": 0o700}]), {}, {})
    assert "log in as the directory's owner" in refused.value.hint


def archive(place: HostRun, *members: tuple[str, str, str]) -> None:
    """src.tar with files and symbolic links: (name, content, link target)."""
    place.root.mkdir(parents=True, exist_ok=True)
    with tarfile.open(place.root / "src.tar", "w") as tar:
        for name, content, link in members:
            info = tarfile.TarInfo(name)
            info.size, info.linkname = len(content), link
            info.type = tarfile.SYMTYPE if link else tarfile.REGTYPE
            tar.addfile(info, io.BytesIO(content.encode()))


def source(place: HostRun, role: str = "unpack", wait_s: float = 0.2) -> dict[str, Any]:
    return spec(source={"role": role, "path": str(place.src), "digest": "d1", "wait_s": wait_s, "collect": True})


def test_the_source_is_unpacked_and_announced(place: HostRun) -> None:
    archive(place, ("pkg/train.py", "print(1)", ""), ("data", "", "/data/imagenet"))
    attempt_preparation._unpack_source(place, source(place))
    assert (place.src / "pkg" / "train.py").read_text() == "print(1)"
    assert str((place.src / "data").readlink()) == "/data/imagenet"
    assert (place.root / ".complete-d1").exists()
    assert not (place.root / "src.tar").exists()
    attempt_preparation._unpack_source(place, source(place, role="wait"))


def test_a_source_that_does_not_appear(place: HostRun) -> None:
    with pytest.raises(Refused, match=r"the staged source did not appear at .* within 0 s") as caught:
        attempt_preparation._unpack_source(place, source(place, role="wait"))
    assert "same file system" in caught.value.hint


def test_without_a_source_nothing_happens(place: HostRun) -> None:
    attempt_preparation._unpack_source(place, spec())
    assert not place.root.exists()


def test_a_broken_archive_is_a_refusal_and_leaves_nothing(place: HostRun) -> None:
    place.root.mkdir(parents=True)
    (place.root / "src.tar").write_bytes(b"no tar at all" * 100)
    with pytest.raises(Refused, match="cannot prepare"):
        attempt_preparation.prepare(place, source(place), {}, {})
    assert not place.root.exists()


def test_secrets_are_files_for_the_owner(place: HostRun) -> None:
    attempt_preparation._write_secrets(place, spec(), {"TOKEN": "hunter2\nsecond line"})
    assert (place.secrets / "TOKEN").read_text() == "hunter2\nsecond line"
    assert (place.secrets / "TOKEN").stat().st_mode & 0o777 == 0o400
    assert place.secrets.stat().st_mode & 0o077 == 0


def test_without_secrets_there_is_no_directory(place: HostRun) -> None:
    attempt_preparation._write_secrets(place, spec(), {})
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


@pytest.mark.parametrize(
    ("version", "wanted"),
    [("systemd 252 (252.38-1~deb12u1)\n+PAM", True), ("systemd 243\n", True), ("systemd 239 (239-82.el8)\n", False)],
)
def test_a_rank_killed_for_memory_does_not_end_the_unit_of_its_guard(
    place: HostRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, wanted: bool
) -> None:
    """systemd before 243 has no such property, and does not end the unit either."""
    said = tmp_path / "said"
    for name, script in (("systemctl", f"printf '%s' '{version}'"), ("systemd-run", f'echo "$@" >{said}')):
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    attempt_preparation._start_unit("unit", ["guard"], place)
    assert ("--property=OOMPolicy=continue" in said.read_text()) is wanted
