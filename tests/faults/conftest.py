"""The stages of the fault rows, and the table that is printed at the end.

DDP_PLAY_FAULTS=all plays every row on every stage it is for (`make faults`); otherwise the quick ones play here.
DDP_PLAY_FAULTS_SLACK=2 allows twice the time on a machine that has other work; the table says so.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.measured import Measured
from tests.faults.rows import Row
from tests.faults.stage import Here, OnLab, Stage
from tests.faults.table import ROWS
from tests.lab.conftest import Lab, lab3, lab_home, torch_on_hosts

__all__ = ["lab3", "lab_home", "torch_on_hosts"]  # the lab of tests/lab

ALL = os.environ.get("DDP_PLAY_FAULTS") == "all"
SLACK = float(os.environ.get("DDP_PLAY_FAULTS_SLACK", "1"))


@dataclass
class Played:
    """A line of the printed table."""

    row: Row
    stage: str
    measured: Measured | None
    problems: list[str]
    remark: str = ""


PLAYED: list[Played] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every row on every stage it is for."""
    if "row" not in metafunc.fixturenames:
        return
    cases = []
    for row in ROWS:
        for stage in row.on if ALL else row.on[:1]:
            if ALL or row.quick:
                mark = pytest.mark.lab if stage == "lab" else pytest.mark.dist
                marks = [mark, pytest.mark.runner, pytest.mark.timeout(600)]
                cases.append(pytest.param(row, stage, id=f"{stage}: {row.name}", marks=marks))
    metafunc.parametrize(("row", "stage_name"), cases)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A directory beside pytest's, which each other session of pytest closes to other users when it starts.

    Ranks of another user then reach none of the run's files by their absolute paths. Kept if the row failed.
    """
    failed = request.session.testsfailed
    top = Path(tempfile.mkdtemp(prefix="ddp-play-fault-"))
    (top / "row").mkdir(mode=0o700)
    yield top / "row"
    if request.session.testsfailed == failed:
        shutil.rmtree(top, ignore_errors=True)


@pytest.fixture
def stage(request: pytest.FixtureRequest, stage_name: str, tmp_path: Path) -> Iterator[Stage]:
    """Where this row plays."""
    if stage_name == "here":
        yield Here(tmp_path)
        return
    lab: Lab = request.getfixturevalue("torch_on_hosts")
    yield OnLab(lab, tmp_path)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table, in the order it was played."""
    if not PLAYED:
        return
    write = terminalreporter.write_line
    terminalreporter.section("faults" + (f" (times x {SLACK:g} allowed)" if SLACK != 1 else ""))
    width = max(len(row.row.name) for row in PLAYED)
    form = f"{{:<{width}}}" + " {:<5} {:<12} {:>5} {:>9} {:>8} {:>7}  {}"
    write(form.format("fault", "where", "verdict", "rank", "detected", "stopped", "clean", ""))
    for row in PLAYED:
        write(form.format(*_cells(row)))
        for problem in row.problems:
            write(f"    ! {problem}")


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
