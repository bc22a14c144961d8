"""A bundle that grows, read for a screen."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from ddp_play.bundle import run_reader
from ddp_play.bundle.journal import Journal
from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.run_reader import RunReader, last_line, last_row
from tests.unit.cli.run_directories import make_run

RUNNING = {"state": "running", "ok": False, "stopped": False, "how": ""}


def begun() -> tuple[RunPaths, Journal]:
    """A run with a plan, whose ranks are running."""
    paths = make_run(logs=(b"first\nlast of 0", b"last of 1\n"), status="running")
    journal = Journal(paths.events)
    journal.emit("phase", phase="preparing")
    journal.emit("phase", phase="running")
    for rank in (0, 1):
        journal.emit("rank", rank=rank, host=f"h{rank + 1}", **RUNNING)
    return paths, journal


def add_rows(path: Any, *rows: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    with path.open("a") as handle:
        handle.write("".join(json.dumps(row) + "\n" for row in rows))


def test_events_metrics_and_the_ends_of_logs() -> None:
    paths, _ = begun()
    add_rows(paths.metrics(0), {"step": 3, "loss": 0.5})
    reader = RunReader(paths)
    reader.refresh([0])
    state = reader.state
    assert state.phase == "running"
    assert state.counts() == {"running": 2}
    assert state.metrics.series["loss"].last == 0.5
    assert (state.ranks[0].line, state.ranks[0].step) == ("last of 0", 3.0)
    assert state.ranks[0].line_at == pytest.approx(time.time(), abs=60)
    assert state.ranks[1].line == "", "a rank that is not in view is not read"
    with paths.log(0).open("ab") as log:
        log.write(b" and more\n\n")
    reader.refresh([0, 1, 99])
    assert (state.ranks[0].line, state.ranks[1].line) == ("last of 0 and more", "last of 1")


def test_a_file_that_has_not_grown_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    paths, _ = begun()
    reader = RunReader(paths)
    reader.refresh([0, 1])
    monkeypatch.setattr(run_reader, "read_end", lambda *_: pytest.fail("it was read"))
    reader.refresh([0, 1])


def test_samples_of_hosts_that_are_not_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_reader, "SAMPLES_S", -1.0)
    paths, _ = begun()
    now = time.time()
    add_rows(paths.samples("h1"), {"format": 1, "cores": 8}, {"t": now, "s": 2, "attempt": 1, "cpu": 3.0})
    add_rows(paths.samples("h2"), {"format": 1}, {"t": now - 60, "s": 2, "attempt": 1, "cpu": 3.0})
    reader = RunReader(paths)
    reader.refresh()
    assert reader.state.hosts["h1"].header["cores"] == 8
    assert reader.state.hosts["h1"].sample["cpu"] == 3.0
    assert reader.state.hosts["h2"].sample == {}


def test_a_restart_reads_the_new_attempt() -> None:
    paths, journal = begun()
    add_rows(paths.metrics(0), {"step": 9, "loss": 0.5})
    reader = RunReader(paths)
    reader.refresh([0])
    paths.metrics(0).unlink()
    paths.log(0).write_bytes(b"again of 0" + b"\n" * 6)  # as long as the old one
    journal.emit("restart", attempt=2, reason="h2 is lost", retired={}, new=[])
    journal.emit("phase", phase="preparing")
    reader.refresh()
    add_rows(paths.metrics(0), {"step": 1, "loss": 2.5})
    reader.refresh([0])
    assert reader.state.metrics.series["loss"].values == [2.5]
    assert reader.state.ranks[0].line == "again of 0"
    assert reader.state.attempt == 2


@pytest.mark.parametrize(
    ("end", "line"),
    [
        (b"", ""),
        (b"a\nb\n", "b"),
        (b"a\nb", "b"),
        (b"a\n\n \n", "a"),
        (b"10%\r20%\r", "20%"),
        (b"\xff\x1b[2J\n", "\ufffd" * 2 + "[2J"),
    ],
)
def test_the_last_line_with_text(end: bytes, line: str) -> None:
    assert last_line(end) == line


@pytest.mark.parametrize(
    ("end", "row"),
    [
        (b"", {}),
        (b'{"a": 1}\n', {"a": 1}),
        (b'{"a": 1}\n{"b"', {"a": 1}),
        (b'd": 1}\n{"a": 2}\nnonsense\n[1]\n', {"a": 2}),
        (b'{"a": 1}\n' + b"[" * 5000 + b"\n", {"a": 1}),
    ],
)
def test_the_last_whole_row(end: bytes, row: dict[str, Any]) -> None:
    assert last_row(end) == row
