"""Readers of growing files: complete lines of any bytes in pieces of any size."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.file_tail import LINE_BYTES, READ_BYTES, JsonTail, LineTail, shown, size_in_bytes

if TYPE_CHECKING:
    from pathlib import Path


def add(path: Path, data: bytes) -> None:
    with path.open("ab") as handle:
        handle.write(data)


def test_partial_lines_wait_for_their_end(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = LineTail(path)
    assert tail.lines() == [], "no file yet"
    for data, lines in (
        (b"one\ntw", ["one"]),
        (b"", []),
        (b"o", []),
        (b"\nthree\n\n", ["two", "three", ""]),
        ("größe".encode()[:3], []),
        ("größe".encode()[3:] + b"\nrest", ["größe"]),
    ):
        add(path, data)
        assert tail.lines() == lines
    assert tail.finish() == ["rest"]
    assert tail.finish() == []


def test_lines_that_came_with_the_end_are_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    add(path, b"a\nb")
    tail = LineTail(path)
    assert tail.lines() == ["a"]
    add(path, b"c\nd\ne")
    assert tail.finish() == ["bc", "d", "e"]


def test_from_an_offset(tmp_path: Path) -> None:
    path = tmp_path / "log"
    add(path, b"old\nnew\n")
    assert LineTail(path, 4).lines() == ["new"]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"", ""),
        (b"plain", "plain"),
        (b"tab\there", "tab\there"),
        (b"dos\r", "dos"),
        (b"10%\r50%\r100%", "100%"),
        (b"10%\r100%\r", "100%"),
        (b"\x1b[31mred\x1b[0m", "\ufffd[31mred\ufffd[0m"),
        (b"\xff\xfe\x00", "\ufffd\ufffd\ufffd"),
        ("größe λ 漢字".encode(), "größe λ 漢字"),
        (b"x" * LINE_BYTES, "x" * LINE_BYTES),
        (b"x" * 5000, "x" * LINE_BYTES + " ... (5000 bytes)"),
        (b"x" * 5000 + b"\rlast", "last"),
    ],
)
def test_what_the_screen_shows(line: bytes, text: str) -> None:
    assert shown(line) == text


def test_binary_never_stops_the_tail(tmp_path: Path) -> None:
    path = tmp_path / "log"
    add(path, bytes(range(256)) * 4 + b"\nafter\n")
    assert LineTail(path).lines()[-1] == "after"


def test_a_line_of_ten_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "log"
    tail = LineTail(path)
    add(path, b"x" * 10_000_000)
    assert tail.lines() == []
    add(path, b"y\nnext\n")
    assert tail.lines() == ["x" * LINE_BYTES + " ... (10000001 bytes)", "next"]


def test_a_line_without_an_end_takes_little_memory(tmp_path: Path) -> None:
    """A rank may write a gigabyte without a newline; all of it was kept, and copied with each megabyte that came."""
    path = tmp_path / "log"
    tail = LineTail(path)
    add(path, b"10%\r" + b"x" * 5_000_000)
    assert tail.lines() == []
    add(path, b"x" * 5_000_000)
    assert tail.lines() == []
    assert len(tail._rest) <= READ_BYTES
    add(path, b"\nnext\n")
    assert tail.lines() == ["x" * LINE_BYTES + " ... (10000000 bytes)", "next"]


def test_json_too_deep_for_the_parser_is_no_row(tmp_path: Path) -> None:
    """A rank's metrics ended the live view with a RecursionError."""
    path = tmp_path / "rows"
    add(path, b"[" * 3000 + b'\n{"a": 1}\n')
    assert JsonTail(path).rows() == [{"a": 1}]


def test_a_long_row_is_whole(tmp_path: Path) -> None:
    """The event of a restart names all hosts; with a few hundred of them the view missed it."""
    path = tmp_path / "rows"
    row = {"type": "restart", "hosts": [f"host-{number}" for number in range(1000)]}
    add(path, json.dumps(row).encode() + b"\n")
    assert JsonTail(path).rows() == [row]


def test_a_backlog_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    tail = JsonTail(path)
    tail.skip_backlog(100)  # no file yet
    add(path, b"".join(b'{"a": %d}\n' % number for number in range(1000)))
    tail.skip_backlog(25)
    assert tail.rows() == [{"a": 998}, {"a": 999}]
    add(path, b'{"a": 1000}\n')
    tail.skip_backlog(25)
    assert tail.rows() == [{"a": 1000}]


def test_json_rows_skip_what_is_none(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    add(path, b'{"a": 1}\nnot json\n[1]\n"text"\n\n{"b": 2}\n{"c"')
    tail = JsonTail(path)
    assert tail.rows() == [{"a": 1}, {"b": 2}]
    add(path, b": 3}\n")
    assert tail.rows() == [{"c": 3}]
    assert tail.rows() == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_file_that_moves_away_is_read_to_its_end(tmp_path: Path, when: str) -> None:
    """The logs of an ended attempt are moved to attempts/N, and new files get their names."""
    path, moved = tmp_path / "rank-0.log", tmp_path / "old" / "rank-0.log"
    path.write_bytes(b"one\ntwo\nthr")
    tail = LineTail(path)
    tail._offset = 4
    if when == "before":
        moved.parent.mkdir()
        path.rename(moved)
        path.write_bytes(b"of the next attempt, longer than the old one was\n")
    assert tail.finish_in(moved) == ["two", "thr"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\nb\nc\nd\n", ["c", "d"]),
        (b"a\nb\nc\nd", ["c", "d"]),
        (b"a\n", ["a"]),
        (b"", []),
        (b"x" * (2 * LINE_BYTES) + b"\nlast\n", ["last"]),
    ],
)
def test_only_the_last_lines(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    path = tmp_path / "log"
    tail = LineTail(path)
    tail.skip_to_last(2)  # no file yet
    path.write_bytes(content)
    tail.skip_to_last(2)
    assert tail.finish() == lines


def test_a_file_that_is_not_there_has_no_bytes(tmp_path: Path) -> None:
    assert size_in_bytes(tmp_path / "log") == 0
    add(tmp_path / "log", b"one\n")
    assert size_in_bytes(tmp_path / "log") == 4


def test_lines_come_in_pieces_of_a_large_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddp_play.bundle.file_tail.READ_BYTES", 10)
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nthree\nfour\nend")
    tail = LineTail(path)
    assert [tail.some_lines() for _ in range(4)] == [["one", "two"], ["three", "four"], [], []]
    assert tail.finish() == ["end"]
