"""The row of a table for a version, newest first."""

from __future__ import annotations

import pytest
from ansible_collections.ddp.play.plugins.filter import version_table

TABLE = [{"torch": "2.11", "branch": 580}, {"torch": "2.0", "branch": 525}]


@pytest.mark.parametrize(
    ("version", "branch"),
    [("2.11", 580), ("2.11.0", 580), ("3.0", 580), ("2.9.1", 525), ("2.0", 525), ("1.13", None)],
)
def test_row(version: str, branch: int | None) -> None:
    assert version_table.row(TABLE, version, "torch").get("branch") == branch
    assert version_table.row([], version, "torch") == {}
