"""Rows of `uncollected` in run.json."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.run.waiting_files import WaitingFiles, rows_of, uncollected, waiting_files, worth_asking


@pytest.mark.parametrize(
    ("files", "fields"),
    [
        (WaitingFiles(), {}),
        (WaitingFiles(incomplete=True), {"incomplete": True}),
        (WaitingFiles(incomplete=True, limit_mib=7), {"incomplete": True, "artifacts_max_mib": 7}),
    ],
)
def test_a_row_and_back(files: WaitingFiles, fields: dict[str, Any]) -> None:
    row = {"attempt": 2, "host": "h1", **fields}
    assert rows_of({(2, "h1"): files}) == [row]
    assert waiting_files({"uncollected": [row]}) == {(2, "h1"): files}


def test_without_a_limit_nobody_is_asked_who_would_send_the_same_again() -> None:
    found = {(1, "h1"): WaitingFiles(), (1, "h2"): WaitingFiles(True), (1, "h3"): WaitingFiles(True, 7)}
    assert worth_asking(found, 0) == {(1, "h1"), (1, "h2")}
    assert worth_asking(found, 7) == set(found)


def test_rows_are_in_order_and_a_run_may_have_none() -> None:
    keys = [(1, "h1"), (1, "h2"), (2, "h1")]
    rows = rows_of(dict.fromkeys(reversed(keys), WaitingFiles()))
    assert [(row["attempt"], row["host"]) for row in rows] == keys
    assert uncollected({"uncollected": rows}) == set(keys)
    assert uncollected({}) == uncollected({"uncollected": None}) == set()
