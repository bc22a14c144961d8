"""Hosts that answer an order with something else than ddp-play's program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ddp_play.checks.host_orders import lose_for_answer


@dataclass
class Orders:
    """Orders to no host."""

    lost: dict[str, str] = field(default_factory=dict)

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        raise NotImplementedError(kind, fields, limit_s)


def test_a_host_is_lost_with_the_order_and_the_first_reason_stays() -> None:
    orders = Orders({"h1": "the connection ended"})
    for host in ("h1", "h2"):
        lose_for_answer(orders, host, "check_listen")
    assert orders.lost == {
        "h1": "the connection ended",
        "h2": "its answer to check_listen is not what ddp-play's program sends",
    }
