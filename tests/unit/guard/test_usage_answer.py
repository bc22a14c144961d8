"""What a host answers to `ddp-play usage`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import usage_answer
from ddp_play.guard.gpus import pci_addresses
from ddp_play.guard.usage_answer import answer, totals

KEY = "night.0123456789abcdef"


def row(start: float, seconds: float, **fields: Any) -> dict[str, Any]:
    same = {"run": KEY, "attempt": 1, "host": "a", "owner": "kim", "slots": 2}
    return {**same, "from": start, "s": seconds, **fields}


def test_only_what_is_in_the_time_counts() -> None:
    rows = [row(0, 100), row(100, 100, attempt=2), row(190, 60, attempt=2), row(300, 10)]
    (total,) = totals(rows, 50.0, 200.0)
    assert total == {
        "run": "night",
        "token": "0123456789abcdef",
        "owner": "kim",
        "host": "a",
        "attempts": 2,
        "s": 160.0,
        "slot_s": 320.0,
        "gpu_s": 0.0,
        "gpu_busy_s": 0.0,
    }
    assert totals(rows, 400.0, 500.0) == []


def test_seconds_of_gpus_in_the_time() -> None:
    rows = [row(0, 100, gpu_s=200, gpu_busy_s=50), row(100, 100), row(200, 100, gpu_s=90, gpu_busy_s=90.0)]
    (total,) = totals(rows, 50.0, 300.0)
    assert (total["gpu_s"], total["gpu_busy_s"]) == (190.0, 115.0)


@pytest.mark.parametrize("attempt", [[1], {}, None])
def test_a_row_whose_attempt_is_no_number_counts(attempt: Any) -> None:
    (total,) = totals([row(0, 10, attempt=attempt), row(10, 10, attempt=attempt)], 0.0, 100.0)
    assert (total["attempts"], total["slot_s"]) == (1, 40.0)


def test_the_largest_first_and_the_rest_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_answer, "MAX_RUNS", 1)
    found = totals([row(0, 1, run="small"), row(0, 9), row(0, 2, run="other", slots=1)], 0.0, 100.0)
    assert [(each["run"], each["slot_s"], each["attempts"]) for each in found] == [("night", 18.0, 1), ("", 4.0, 2)]


def test_the_record_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_answer, "bases", lambda: [tmp_path, tmp_path / "none"])
    assert answer(3600.0) == {"runs": [], "record": "", "oldest_s": None, "gpus": len(pci_addresses())}
    now = time.time()
    text = "".join(json.dumps(each) + "\n" for each in (row(now - 7200, 60), row(now - 60, 60)))
    (tmp_path / "usage.jsonl").write_text(text)
    found = answer(3600.0)
    assert [each["s"] for each in found["runs"]] == [pytest.approx(60, abs=1)]
    assert found["oldest_s"] == pytest.approx(7200, abs=60)
    assert found["record"] == answer(1.0)["record"] != ""
