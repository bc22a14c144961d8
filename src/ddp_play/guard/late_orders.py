"""Orders whose modules no run needs: those of `ddp-play check` and `top`, imported when the first of them arrives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict

from .refusal import Refused

if TYPE_CHECKING:
    from .protocol import Header


class LateOrders:
    """Objects with a method `on_ORDER` for each order, by its first word. `send`: of the channel."""

    def __init__(self, send: Callable[..., Any]) -> None:
        self.send = send
        self.known: Dict[str, Any] = {}

    def obey(self, header: Header) -> None:
        """Execute an order. Raises Refused for one that nobody knows."""
        order = str(header["t"])
        kind = order.partition("_")[0]
        if kind not in self.known:
            self.known[kind] = self._load(kind)
        handler = getattr(self.known[kind], "on_" + order, None)
        if handler is None:
            raise Refused("unknown order %s" % order, kind="internal")
        handler(header)

    def hang_up(self) -> None:
        """Give back what a check still holds: the connection has ended."""
        for kind in ("check", "container"):
            if kind in self.known:
                self.known[kind].hang_up()

    def _load(self, kind: str) -> Any:
        if kind == "check":
            from .check_orders import CheckOrders

            return CheckOrders(self.send)
        if kind == "container":
            from .container_orders import ContainerOrders

            return ContainerOrders(self.send)
        if kind == "pair":
            from .pair_orders import PairOrders

            return PairOrders(self.send)
        if kind == "activity":
            from .activity_orders import ActivityOrders

            return ActivityOrders(self.send)
        return None
