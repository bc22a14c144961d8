"""Orders to all hosts of a check at once, as measurements see them: answers by host, and why one is asked no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


class HostOrders(Protocol):
    """Orders to hosts over their channels."""

    lost: dict[str, str]  # why a host is asked no more

    def documents(self, kind: str, fields: Mapping[str, dict[str, Any]], *, limit_s: float) -> dict[str, Any]:
        """By host, the JSON object that it answers. A host without one is in `lost` afterwards."""


class TimedOrders(HostOrders, Protocol):
    """Orders within the time of the check."""

    def cap_s(self, limit_s: float) -> float:
        """The limit of a program on the hosts, or what is left of the time if that is less."""


def lose_for_answer(orders: HostOrders, host: str, kind: str) -> None:
    """Ask this host no more: it answered to such an order what ddp-play's program does not answer."""
    orders.lost.setdefault(host, f"its answer to {kind} is not what ddp-play's program sends")
