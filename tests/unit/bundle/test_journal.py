"""Event journal: events in order, one write per line, readable after a crash."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.journal import Journal, read_events

if TYPE_CHECKING:
    from pathlib import Path


def test_events_come_back_in_order(tmp_path: Path) -> None:
    path = tmp_path / "run" / "events.jsonl"
    one, two = Journal(path), Journal(path)
    one.emit("phase", phase="running")
    two.emit("rank", rank=3, how="größe\nzwei")
    one.emit("ended")
    rows = list(read_events(path))
    assert [row["type"] for row in rows] == ["phase", "rank", "ended"]
    assert rows[1]["how"] == "größe\nzwei"
    assert rows[0]["time"] <= rows[2]["time"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_no_file_no_events(tmp_path: Path) -> None:
    assert list(read_events(tmp_path / "nowhere")) == []


def test_a_torn_last_line_waits(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    Journal(path).emit("phase")
    whole = path.read_bytes()
    for cut in range(1, len(whole)):
        path.write_bytes(whole + whole[:cut] if cut < len(whole) else whole)
        assert len(list(read_events(path))) == 1


def test_a_line_torn_by_a_crash_and_written_on_is_skipped(tmp_path: Path) -> None:
    """The next supervisor appends to the file of one that died."""
    path = tmp_path / "events.jsonl"
    path.write_text('{"type": "first"}\n{"type": "to')
    Journal(path).emit("lost")
    Journal(path).emit("last")
    assert [row["type"] for row in read_events(path)] == ["first", "last"]


def test_the_event_after_a_line_that_a_full_disk_tore_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk took a part of the line without an error, and the next event was written behind it."""
    path, write = tmp_path / "events.jsonl", os.write
    journal = Journal(path)
    journal.emit("first")
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:10]))
    journal.emit("lost")
    monkeypatch.undo()
    journal.emit("space again")
    journal.emit("last")
    assert [row["type"] for row in read_events(path)] == ["first", "space again", "last"]


def test_a_line_is_one_json_object(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    Journal(path).emit("x", text="a\nb\r\x00", number=1, nothing=None)
    (line,) = path.read_bytes().splitlines()
    assert json.loads(line)["text"] == "a\nb\r\x00"
