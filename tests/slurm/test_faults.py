"""Rows of the fault table on a Slurm cluster, with Slurm tracking processes by their parents and by control groups.

make slurm-faults                                      every row, with both
pytest tests/slurm/test_faults.py -k "linuxproc and SIGKILLed"      the quick rows with this name

tests/faults/slurm_table.py names the rows that do not play here, and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.played import ALL, play_row, row_directory
from tests.faults.rows import Row
from tests.faults.slurm_stage import OnSlurm
from tests.faults.slurm_table import NOT_ON_SLURM, REMAINS, SLURM_ROWS
from tests.faults.stage import HOSTS
from tests.faults.table import ROWS
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import started
from tests.slurm.machine import lacking, lacking_control_groups

TRACKING = ("linuxproc", "cgroup")
# Those that take seconds each play in `make test`, too.
QUICK = ("rank SIGKILLed", "Ctrl-C while training")


@pytest.fixture(scope="module", params=TRACKING)
def tracked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose nodes are the hosts of the table; by its kind of process tracking."""
    tracking = str(request.param)
    reason = lacking() or (lacking_control_groups() if tracking == "cgroup" else "")
    yield from started(tmp_path_factory.mktemp("faults"), reason, nodes=HOSTS, tracking=tracking)


@pytest.fixture
def tmp_path(request: pytest.FixtureRequest) -> Iterator[Path]:
    """As of the other stages of the table."""
    yield from row_directory(request)


@pytest.mark.runner
@pytest.mark.timeout(600)
@pytest.mark.parametrize("row", [row for row in SLURM_ROWS if ALL or row.name in QUICK], ids=lambda row: row.name)
def test_fault(tracked: Cluster, row: Row, tmp_path: Path) -> None:
    stage = OnSlurm(tmp_path, cluster=tracked)
    try:
        play_row(row, stage, tmp_path, where=tracked.tracking)
    finally:
        stage.leave()


def test_every_row_plays_or_is_named_with_the_reason() -> None:
    """A row that was renamed or removed leaves no reason behind."""
    assert {*QUICK} <= {row.name for row in SLURM_ROWS}
    assert {*NOT_ON_SLURM} <= {row.name for row in ROWS}
    assert {*REMAINS} <= {row.name for row in SLURM_ROWS}
