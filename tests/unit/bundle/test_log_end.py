"""The end of a log, however much is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.bundle.log_end import MAX_LINES, WINDOW_BYTES, LogEnd

if TYPE_CHECKING:
    from pathlib import Path


def test_new_lines_and_one_that_is_not_complete(tmp_path: Path) -> None:
    path = tmp_path / "log"
    end = LogEnd(path)
    assert (end.refresh(), end.lines) == ([], [])
    path.write_bytes(b"one\ntw")
    assert end.refresh() == ["one"]
    assert end.lines == ["one", "tw"]
    with path.open("ab") as log:
        log.write(b"o\n\x1b[2J\n")
    assert end.refresh() == ["two", "\ufffd[2J"]
    assert end.lines == ["one", "two", "\ufffd[2J"]
    assert end.refresh() == []


def test_only_the_end_of_a_long_log_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"".join(b"line %07d\n" % number for number in range(500_000)))
    end = LogEnd(path)
    end.refresh()
    assert len(end.lines) == MAX_LINES
    assert end.lines[-1] == "line 0499999"
    with path.open("ab") as log:
        log.write(b"x" * (2 * WINDOW_BYTES) + b"\nlast\n")
    assert end.refresh()[-1] == "last"
    assert end.lines[-1] == "last"
    assert "line 0499999" not in end.lines, "what was skipped is not hidden between lines that are shown"


def test_a_line_of_ten_megabytes_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 10_000_000)
    end = LogEnd(path)
    end.refresh()
    assert len(end.lines) == 1
    assert len(end.lines[0]) < 5000


def test_a_log_of_another_attempt_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a long line of the first attempt\n")
    end = LogEnd(path)
    end.refresh()
    path.write_bytes(b"new\n")
    assert end.refresh() == ["new"]
    assert end.lines == ["new"]
