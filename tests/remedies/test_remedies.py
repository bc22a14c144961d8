"""Every remedy is true: a failure is produced, what its message says is done, and the command gets past it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.remedies.table import ROWS

if TYPE_CHECKING:
    import re

    from tests.remedies.rows import Row
    from tests.remedies.scene import Scene

pytestmark = [pytest.mark.dist, pytest.mark.runner]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_remedy(row: Row, scene: Scene) -> None:
    words = row.make(scene)
    failed = scene(words)
    shown = failed.out + failed.err
    assert failed.code == row.code, shown
    assert "ddp-play itself failed" not in shown
    assert row.said.search(shown), shown
    told = row.told.search(shown)
    assert told, shown
    if row.not_applied:
        return
    scene.notes["told"] = told
    apply(row, scene, told)
    done = scene(row.again(scene) if row.again else words)
    shown = done.out + done.err
    assert done.code == row.code_after, shown
    assert row.seen in shown
    assert not row.said.search(shown), shown


def apply(row: Row, scene: Scene, told: re.Match[str]) -> None:
    """Do what the message says."""
    if row.fix is not None:
        row.fix(scene, told)
    elif row.again is None or "command" in told.groupdict():
        done = scene.shell(told["command"])
        assert done.code == 0, (told["command"], done.out, done.err)
