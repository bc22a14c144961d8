"""The table of remedies is complete, and the documentation has all of its messages."""

from __future__ import annotations

import re
from pathlib import Path

from docs import reference_tables as tables
from tests.remedies.table import ROWS

HEADS = ("| failure ", "| --- ")
ROOT = Path(__file__).resolve().parents[2]


def test_there_are_many_rows_and_each_has_a_name_of_its_own() -> None:
    names = [row.name for row in ROWS]
    assert len(names) >= 60
    assert len(set(names)) == len(names)


def test_every_row_is_tried_or_says_why_not() -> None:
    """A row has a command in its message, an edit, or other words; a row that is not applied has a reason."""
    for row in ROWS:
        tried = row.fix is not None or row.again is not None or "`" in row.remedy
        assert tried or row.not_applied, row.name


def test_the_page_has_every_message_with_its_remedy() -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert "<!-- reference: remedies -->" in text
    shown = tables.remedies()
    lines = [line for line in shown.splitlines() if line.startswith("| ") and not line.startswith(HEADS)]
    assert len(lines) == len(ROWS)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    for row, line in zip(sorted(ROWS, key=lambda row: row.area), sorted_by_area(shown), strict=True):
        assert row.says.replace("|", "\\|") in line
        assert line.startswith(f"| {row.name} | ")
        assert f" | {row.code} | " in line


def sorted_by_area(shown: str) -> list[str]:
    """The lines of the tables in the order of their areas' names."""
    found: dict[str, list[str]] = {}
    area = ""
    for line in shown.splitlines():
        area = line.removeprefix("### ") if line.startswith("### ") else area
        if line.startswith("| ") and not line.startswith(HEADS):
            found.setdefault(area, []).append(line)
    return [line for name in sorted(found) for line in found[name]]
