"""A check that makes records, and the next one that is compared with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.own_records import with_records

from .fleets import ASKED, fleet
from .matrices import with_matrix

if TYPE_CHECKING:
    from pathlib import Path


def test_records_are_made_on_request_only_and_compared_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DDP_PLAY_HOME", str(tmp_path / "home"))
    good = with_matrix(fleet(3))
    bad = Finding("cpu", Status.FAIL, "2 CPUs", where=("h3",))

    first = with_records(good, (), level="full", record=False, asked=ASKED)
    assert (first.findings, first.recorded) == ((), ())
    assert not (tmp_path / "home").exists()

    made = with_records(good, (bad,), level="full", record=True, asked=ASKED)
    assert (made.recorded, made.refused) == (("h1", "h2"), (("h3", "failed: cpu"),))
    assert made.findings == (), "they are compared with what was there before"

    slow = with_matrix(fleet(3), h1_h2={"mbps": 500.0})
    later = with_records(slow, (), level="full", record=False, asked=ASKED)
    (worse,) = [row for row in later.findings if row.status is Status.WARN]
    assert worse.where == ("h1",)
    assert "-i inv --limit h1" in worse.command
    assert [row.where for row in later.findings if row.status is Status.UNCHECKED] == [("h3",)]
    assert later.to_json()["recorded"] == []

    again = with_records(slow, (), level="full", record=True, asked=ASKED)
    assert again.recorded == ("h1", "h2", "h3")
    assert any(row.status is Status.WARN for row in again.findings), "what is replaced is said"
    accepted = with_records(slow, (), level="full", record=False, asked=ASKED)
    assert {row.status for row in accepted.findings} == {Status.OK}
