"""Rows that were played: one played on a stage, and the table that is printed at the end."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.faults.measured import SLACK, differences
from tests.faults.scene import Scene

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.measured import Measured
    from tests.faults.rows import Row
    from tests.faults.stage import Stage

ALL = os.environ.get("DDP_PLAY_FAULTS") == "all"


@dataclass
class Played:
    """A line of the printed table."""

    row: Row
    stage: str
    measured: Measured | None
    problems: list[str]
    remark: str = ""


PLAYED: list[Played] = []


def play_row(row: Row, stage: Stage, directory: Path, *, where: str = "") -> None:
    """The row ends, or goes on, as it was written down beforehand. `where`: the stage's name in the table."""
    played = Played(row, where or stage.name, None, ["did not come to an end that could be measured"])
    PLAYED.append(played)
    scene = Scene(row, stage, directory)
    try:
        played.measured = scene.perform()
    except pytest.skip.Exception:
        PLAYED.remove(played)
        raise
    played.remark = scene.notes.get("remark", "")
    played.problems = differences(row.expected, played.measured)
    assert played.problems == [], played.measured.screen[-3000:]


def row_directory(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The directory of a row, kept if it failed. No other session of pytest closes it to other users."""
    failed = request.session.testsfailed
    top = Path(tempfile.mkdtemp(prefix="ddp-play-fault-"))
    (top / "row").mkdir(mode=0o700)
    yield top / "row"
    if request.session.testsfailed == failed:
        shutil.rmtree(top, ignore_errors=True)


def print_played(reporter: Any) -> None:
    """The table, once, in the order it was played."""
    if not PLAYED:
        return
    write = reporter.write_line
    reporter.section("faults" + (f" (times x {SLACK:g} allowed)" if SLACK != 1 else ""))
    width = max(len(row.row.name) for row in PLAYED)
    form = f"{{:<{width}}}" + " {:<9} {:<12} {:>5} {:>9} {:>8} {:>7}  {}"
    write(form.format("fault", "where", "verdict", "rank", "detected", "stopped", "clean", ""))
    for row in PLAYED:
        write(form.format(*_cells(row)))
        for problem in row.problems:
            write(f"    ! {problem}")
    PLAYED.clear()


def _cells(played: Played) -> tuple[str, ...]:
    measured = played.measured
    if measured is None:
        return (played.row.name, played.stage, "-", "-", "-", "-", "-", "FAILED")
    verdict = measured.document.get("verdict") or {}
    rank = "" if verdict.get("rank") is None else str(verdict["rank"])
    times = [_seconds(measured.detected_s), _seconds(measured.stopped_s), _seconds(measured.clean_s)]
    end = "FAILED" if played.problems else f"ok {played.remark}".rstrip()
    return (played.row.name, played.stage, str(measured.document.get("exit_class")), rank, *times, end)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"
