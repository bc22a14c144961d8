"""The table of attempts in docs/security.md names tests that exist, and enough attempts of every kind."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.faults.table import ROWS

ROOT = Path(__file__).resolve().parents[2]
FAULT_ROW = "fault row: "
KINDS = {"redirect", "block", "read", "replace", "exhaust", "confuse"}
ATTEMPTS = 40


def attempts() -> list[tuple[str, str]]:
    """(kind, test) of every attempt."""
    rows = [line.strip("| ").split(" | ") for line in (ROOT / "docs/security.md").read_text().splitlines()]
    return [(row[0], row[-1].strip("`")) for row in rows if row[0] in KINDS and len(row) == 4]


def test_every_attempt_has_a_test_that_exists() -> None:
    faults = {row.name for row in ROWS}
    for _, test in attempts():
        if test.startswith(FAULT_ROW):
            assert test.removeprefix(FAULT_ROW) in faults, test
        else:
            path, _, name = test.partition("::")
            assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.MULTILINE), test


def test_there_are_attempts_of_every_kind() -> None:
    counts = Counter(kind for kind, _ in attempts())
    assert set(counts) == KINDS
    assert len(set(attempts())) >= ATTEMPTS, counts
