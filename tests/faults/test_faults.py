"""Every row of the fault table ends, or goes on, as it was written down beforehand.

make faults                                       every row, on this machine and on a lab
pytest tests/faults -k "SIGKILLed"                the quick rows with this name, here

tests/slurm/test_faults.py plays the rows on a Slurm cluster.
"""

from __future__ import annotations

from pathlib import Path

from tests.faults.played import play_row
from tests.faults.rows import Row
from tests.faults.stage import Stage


def test_fault(row: Row, stage: Stage, tmp_path: Path) -> None:
    play_row(row, stage, tmp_path)
