"""Ranks that were frozen for evidence and that nobody ended."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ddp_play.guard import frozen_ranks, hang_evidence
from ddp_play.guard.orders import Orders
from ddp_play.guard.ranks import Rank
from ddp_play.guard.run_directory import FROZEN, HostRun


def test_ranks_that_stay_frozen_are_thawed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    thawed: list[list[int]] = []
    now = [100.0]
    monkeypatch.setattr(hang_evidence, "thaw", thawed.append)
    monkeypatch.setattr(hang_evidence, "main_processes", lambda pid: [pid + 1] if pid == 7 else [])
    monkeypatch.setattr(frozen_ranks, "time", SimpleNamespace(monotonic=lambda: now[0]))
    rows: Any = [SimpleNamespace(running=True, row={"pid": pid}) for pid in (7, 20)]
    ranks, orders = cast("list[Rank]", rows), Orders()
    frozen = frozen_ranks.FrozenRanks(orders, HostRun(tmp_path), {"thaw_s": 15.0})
    frozen.look(ranks, stopping=False)
    orders.give(FROZEN, {})
    for moment, expected in ((100.0, []), (115.0, []), (115.1, [[8], [20]]), (200.0, [[8], [20]])):
        now[0] = moment
        frozen.look(ranks, stopping=False)
        assert thawed == expected
    assert orders.get(FROZEN) is None
    orders.give(FROZEN, {})
    frozen.look(ranks, stopping=False)
    now[0] = 300.0
    frozen.look(ranks, stopping=True)
    assert len(thawed) == 2, "the fence ends them"
