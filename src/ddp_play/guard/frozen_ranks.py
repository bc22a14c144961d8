"""Ranks that were frozen for evidence: they go on if nobody ends them, because their controller was lost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import hang_evidence
from .run_directory import FROZEN, HostRun

if TYPE_CHECKING:
    from .orders import Orders
    from .ranks import Rank


class FrozenRanks:
    """Watches how long the order to freeze the ranks has stood."""

    def __init__(self, orders: Orders, place: HostRun, limits: Dict[str, Any]) -> None:
        self._orders = orders
        self._place = place
        self._limits = limits
        self._since: Optional[float] = None

    def look(self, ranks: List[Rank], *, stopping: bool) -> None:
        """Continue ranks that were frozen for longer than the limit `thaw_s`, and have not been told to end since."""
        if stopping or self._orders.get(FROZEN) is None:
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since > self._limits["thaw_s"]:
            for rank in ranks:
                if rank.running and (pid := int(rank.row["pid"] or 0)):
                    hang_evidence.thaw(hang_evidence.main_processes(pid) or [pid])
            self._orders.take_back(FROZEN, self._place)
