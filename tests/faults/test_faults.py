"""Every row of the fault table ends, or goes on, as it was written down beforehand.

make faults                                       every row, on this machine and on a lab
pytest tests/faults -k "SIGKILLed"                the quick rows with this name, here
"""

from __future__ import annotations

from pathlib import Path

from tests.faults.conftest import PLAYED, SLACK, Played
from tests.faults.measured import differences
from tests.faults.rows import Row
from tests.faults.scene import Scene
from tests.faults.stage import Stage


def test_fault(row: Row, stage: Stage, tmp_path: Path) -> None:
    played = Played(row, stage.name, None, ["did not come to an end that could be measured"])
    PLAYED.append(played)
    scene = Scene(row, stage, tmp_path)
    played.measured = scene.perform()
    played.remark = scene.notes.get("remark", "")
    played.problems = differences(row.expected, played.measured, slack=SLACK)
    assert played.problems == [], played.measured.screen[-3000:]
