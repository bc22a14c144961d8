"""Whether a rank failed: one definition for the guard and the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.outcome import RankOutcome
from ddp_play.guard.ranks import make
from ddp_play.guard.run_files import HostRun


@pytest.mark.parametrize(
    ("row", "failed"),
    [
        ({"state": "created", "exit_code": None, "stopped": False}, False),
        ({"state": "running", "exit_code": None, "stopped": False}, False),
        ({"state": "exited", "exit_code": 0, "stopped": False}, False),
        ({"state": "exited", "exit_code": 3, "stopped": False}, True),
        ({"state": "exited", "exit_code": None, "stopped": False}, True),
        ({"state": "exited", "exit_code": 143, "stopped": True}, False),
    ],
)
def test_guard_and_controller_call_the_same_ranks_failed(tmp_path: Path, row: dict[str, Any], failed: bool) -> None:
    on_host = make({"rank": 0}, HostRun(tmp_path))
    on_host.row.update(row)
    assert on_host.failed is failed
    assert RankOutcome(rank=0, host="h1", **row).failed is failed


def test_a_rank_of_a_lost_host_has_not_failed() -> None:
    assert RankOutcome(rank=0, host="h1", state="lost").failed is False
