"""Files of a source: those that change, cannot be read or lie elsewhere."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.errors import UsageError
from ddp_play.run import source_files
from ddp_play.run.source_files import READ_TRIES, SourceFile, list_files, read_file
from tests.unit.build import job

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_AGO = 10**18


def read(path: Path) -> tuple[SourceFile, bytes]:
    """What was passed on of a file the last time that it was read."""
    tries: list[tuple[SourceFile, list[bytes]]] = []

    def begin(found: SourceFile) -> Callable[[bytes], object]:
        tries.append((found, []))
        return tries[-1][1].append

    read_file(str(path), begin)
    found, parts = tries[-1]
    return found, b"".join(parts)


def written(path: Path, text: str = "content") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def meanwhile(monkeypatch: pytest.MonkeyPatch, *changes: Any) -> list[int]:
    """Make one change between the first look at a file and the end of each reading; the list grows per reading."""
    readings: list[int] = []
    fstat, calls = os.fstat, iter(range(1000))

    def look(fd: int) -> os.stat_result:
        found = fstat(fd)
        if next(calls) % 2 == 0:
            if len(readings) < len(changes):
                changes[len(readings)]()
            readings.append(fd)
        return found

    monkeypatch.setattr(os, "fstat", look)
    monkeypatch.setattr(source_files, "READ_PAUSE_S", 0.03)
    return readings


def old(path: Path) -> Path:
    """Wait until a file is older than a tick of the kernel's clock."""
    while time.time_ns() - path.stat().st_ctime_ns < 2 * source_files.TICK_NS:
        time.sleep(0.01)
    return path


def test_a_file_at_rest_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old(written(tmp_path / "a"))
    readings = meanwhile(monkeypatch)
    found, content = read(path)
    assert (content, found.mode, found.mtime_ns) == (b"content", 0o644, path.stat().st_mtime_ns)
    assert len(readings) == 1


@pytest.mark.parametrize("change", ["longer", "shorter", "as long", "as long, with its old time"])
def test_a_file_that_changes_while_it_is_read_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    path = old(written(tmp_path / "a"))
    text = {"longer": "content and more", "shorter": "con"}.get(change, "CONTENT")

    def write() -> None:
        before = path.stat()
        path.write_text(text)
        if change.endswith("time"):
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    readings = meanwhile(monkeypatch, write)
    assert read(path)[1] == text.encode()
    assert len(readings) > 1


def test_a_file_that_was_just_written_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next write within the same tick of the clock would leave the same times."""
    path = written(tmp_path / "a")
    monkeypatch.setattr(source_files, "TICK_NS", 200_000_000)
    readings = meanwhile(monkeypatch)
    monkeypatch.setattr(source_files, "READ_PAUSE_S", 0.2)
    read(path)
    assert len(readings) == 2


def test_a_clock_that_is_ahead_or_behind_refuses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "a")
    for now in (0, LONG_AGO * 4):
        monkeypatch.setattr(time, "time_ns", lambda now=now: now)
        assert read(path)[1] == b"content"


def test_a_file_that_changes_each_time_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = old(written(tmp_path / "run.log"))

    def append() -> None:
        with path.open("a") as log:
            log.write("a line\n")

    readings = meanwhile(monkeypatch, *[append] * READ_TRIES)
    with pytest.raises(UsageError, match=rf"{path} changed each of the {READ_TRIES} times it was read") as caught:
        read(path)
    assert "ddp_job_source_exclude" in caught.value.hint
    assert len(readings) == READ_TRIES


def test_a_real_writer_is_noticed_and_no_half_line_is_read(tmp_path: Path) -> None:
    """A log that grows all the time. On a busy machine the writer may rest long enough for a reading."""
    path, stopping = written(tmp_path / "run.log", ""), threading.Event()

    def write() -> None:
        with path.open("ab", buffering=0) as log:
            while not stopping.is_set():
                log.write(b"a line\n" * 100)

    writer = threading.Thread(target=write)
    writer.start()
    refused = None
    deadline = time.monotonic() + 30
    try:
        while refused is None and time.monotonic() < deadline:
            try:
                assert len(read(path)[1]) % 700 == 0
            except UsageError as error:
                refused = error
    finally:
        stopping.set()
        writer.join()
    assert refused is not None
    assert str(path) in refused.message
    assert read(path)[1] == path.read_bytes(), "when it has ended, the file can be read"


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str, *_: Any, **__: Any) -> int:
        raise PermissionError(13, "Permission denied", path)

    path = written(tmp_path / "big.bin")
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError, match=r"ddp_job_source: cannot read .*big\.bin: Permission denied"):
        read(path)


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*gone: No such file or directory"):
        read(tmp_path / "gone")


def test_a_directory_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It used to be left out in silence."""
    written(tmp_path / "code" / "pkg" / "a")
    scandir = os.scandir

    def refuse(path: Path) -> Any:
        if path.name == "pkg":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(UsageError, match=r"ddp_job_source: cannot read .*/code/pkg: Permission denied"):
        list_files(tmp_path / "code", job(source=str(tmp_path / "code")))


@pytest.mark.parametrize("name", ["../other", "pkg/../../other"])
def test_what_is_not_below_the_source_cannot_be_included(tmp_path: Path, name: str) -> None:
    written(tmp_path / "other" / "a")
    root = written(tmp_path / "code" / "pkg" / "a").parents[1]
    with pytest.raises(UsageError, match=r"ddp_job_source_include: .*other is not below .*code"):
        list_files(root, job(source=str(root), source_include=[name]))


def test_files_of_a_directory_follow_one_another(tmp_path: Path) -> None:
    for name in ("b/c/d", "b/a", "b/z", "a", "z"):
        written(tmp_path / name, "x" * len(name))
    found = list_files(tmp_path, job(source=str(tmp_path)))
    assert list(found.items()) == [("a", 1), ("z", 1), ("b/a", 3), ("b/z", 3), ("b/c/d", 5)]
