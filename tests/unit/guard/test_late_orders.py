"""Orders that are imported when they arrive: one object for each kind, and none for a kind that nobody knows."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ddp_play.guard.late_orders import LateOrders
from ddp_play.guard.refusal import Refused


def test_orders_of_a_kind_go_to_one_object() -> None:
    sent: list[tuple[str, bytes]] = []
    late = LateOrders(lambda kind, payload=b"", **_fields: sent.append((kind, payload)))
    late.obey({"t": "pair_end", "n": 0})
    first = late.known["pair"]
    late.obey({"t": "pair_end", "n": 0})
    assert late.known["pair"] is first
    assert [kind for kind, _ in sent] == ["pair_end", "pair_end"]


@pytest.mark.parametrize("kind", ["", "nothing", "check", "pair_nothing", "check_nothing", "container_nothing"])
def test_an_unknown_order_is_refused(kind: str) -> None:
    with pytest.raises(Refused, match=f"unknown order {kind}"):
        LateOrders(lambda *_words, **_fields: None).obey({"t": kind, "n": 0})


def test_a_channel_does_not_import_them() -> None:
    code = "import sys, ddp_play.guard.controller_channel; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    modules: Any = set(done.stdout.split())
    late = {"check_orders", "pair_orders", "container_orders"}
    assert {f"ddp_play.guard.{name}" for name in late} & modules == set()
