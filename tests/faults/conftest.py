"""The stages of the fault rows, and the table that is printed at the end.

DDP_PLAY_FAULTS=all plays every row on every stage it is for (`make faults`); otherwise the quick ones play here.
DDP_PLAY_FAULTS_SLACK=2 allows twice the time on a machine that has other work; the table says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.played import ALL, print_played, row_directory
from tests.faults.stage import Here, OnLab, Stage
from tests.faults.table import ROWS
from tests.lab.conftest import Lab, lab3, lab_home, torch_on_hosts

__all__ = ["lab3", "lab_home", "torch_on_hosts"]  # the lab of tests/lab


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
    yield from row_directory(request)


@pytest.fixture
def stage(request: pytest.FixtureRequest, stage_name: str, tmp_path: Path) -> Iterator[Stage]:
    """Where this row plays."""
    if stage_name == "here":
        yield Here(tmp_path)
        return
    lab: Lab = request.getfixturevalue("torch_on_hosts")
    yield OnLab(lab, tmp_path)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table of what was played."""
    print_played(terminalreporter)
