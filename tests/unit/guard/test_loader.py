"""The first code on a host: what it takes for the stored program, and what it stores."""

from __future__ import annotations

import io
import marshal
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from ddp_play.guard import loader, state_directory
from ddp_play.run import host_program
from tests.unit.guard.host_program import built, start


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """The stored program."""
    name, content = built(host_program.program())
    path = tmp_path / name
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_a_whole_file_of_this_user_is_the_program(kept: Path) -> None:
    found = loader.stored(str(kept))
    assert found is not None
    assert found == marshal.loads(kept.read_bytes()[loader.HEADER_BYTES :])


@pytest.mark.parametrize("mode", [0o644, 0o620, 0o700])
def test_a_file_that_others_may_read_or_write_is_not(kept: Path, mode: int) -> None:
    kept.chmod(mode)
    assert loader.stored(str(kept)) is None


def test_a_file_of_another_user_is_not(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: kept.stat().st_uid + 1)
    assert loader.stored(str(kept)) is None


def test_a_link_is_not(kept: Path) -> None:
    link = kept.with_name("link.pyc")
    link.symlink_to(kept)
    assert loader.stored(str(link)) is None


@pytest.mark.parametrize("size", [0, 3, 5000, -1])
def test_a_file_that_is_not_whole_is_not(kept: Path, size: int) -> None:
    """As after a power failure."""
    kept.write_bytes(kept.read_bytes()[:size])
    assert loader.stored(str(kept)) is None


def test_a_changed_byte_is_noticed(kept: Path) -> None:
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.write_bytes(bytes(content))
    assert loader.stored(str(kept)) is None


def test_a_damaged_file_is_replaced(kept: Path) -> None:
    kept.write_bytes(kept.read_bytes()[:5000])
    with start(kept.parent, "runs") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, b'"runs": ' in out) == (0, True), err
    assert loader.stored(str(kept)) is not None
    assert [path.name for path in kept.parent.iterdir()] == [kept.name]


def test_python_takes_the_file_for_byte_code(kept: Path) -> None:
    """Not for a zip file, although it contains sources."""
    argv = [sys.executable, "-I", "-S", str(kept), "runs"]
    environment = {**os.environ, "DDP_PLAY_HOST_DIR": str(kept.parent)}
    done = subprocess.run(argv, capture_output=True, check=False, env=environment, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_file_of_the_zip_is_read_as_zipfile_reads_it(method: int) -> None:
    buffer = io.BytesIO()
    files = {"guard/a.py": b"a" * 1000, "guard/empty.py": b"", "b": b"PK\3\4"}
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    assert {name: loader.member(buffer.getvalue(), name.encode()) for name in files} == files
    with zipfile.ZipFile(io.BytesIO(host_program.program())) as archive:
        for name in archive.namelist():
            assert loader.member(host_program.program(), name.encode()) == archive.read(name)


@pytest.mark.parametrize(
    ("name", "module"), [("guard/__init__.py", "guard"), ("guard/main.py", "guard.main"), ("a/b/c.py", "a.b.c")]
)
def test_names_of_modules(name: str, module: str) -> None:
    assert loader.module_of(name) == module


@pytest.mark.parametrize(
    ("uid", "owner", "named", "own"), [(7, 7, "", True), (7, 8, "", False), (0, 0, "", True), (7, 7, "/scratch", False)]
)
def test_whose_place_the_usual_directory_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, uid: int, owner: int, named: str, own: bool
) -> None:
    """With become, HOME may be that of the login's user."""
    monkeypatch.delenv(state_directory.OF_HOST, raising=False)
    monkeypatch.setenv(state_directory.GIVEN, named)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "stat", lambda _: SimpleNamespace(st_uid=owner))
    assert loader.is_own_place() is own


def test_what_is_no_file_is_not_the_program_and_blocks_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert loader.stored(str(tmp_path / "fifo")) is None


def test_zeros_are_no_program(kept: Path) -> None:
    """As a file system may leave them after a crash; their checksum is right."""
    kept.write_bytes(bytes(4))
    assert loader.stored(str(kept)) is None
