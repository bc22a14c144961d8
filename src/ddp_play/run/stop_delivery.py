"""Delivery of a stop to all hosts, also to those that were unreachable when it was sent."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_play.run.host_links import Gang
    from ddp_play.run.link import Link
    from ddp_play.run.stop_decision import Stop


class StopDelivery:
    """Sends stops to the guards, and keeps the last one for hosts that missed it."""

    def __init__(self, gang: Gang) -> None:
        self._gang = gang
        self._last: Stop | None = None
        self._kill_at = 0.0

    def send(self, stop: Stop) -> None:
        """Send a stop to all hosts that are connected."""
        self._last, self._kill_at = stop, time.monotonic() + stop.grace_s
        self._tell(stop, stop.grace_s, self._gang.links)

    def on_back(self, link: Link) -> None:
        """Send the last stop, with what is left of its grace period, to a host that is back and has not had it."""
        stop = self._last
        # trainers may take a second SIGTERM for an order to exit at once
        if stop is not None and (stop.now or link.state.get("phase") not in ("stopping", "ended")):
            self._tell(stop, max(0.0, self._kill_at - time.monotonic()), [link])

    def _tell(self, stop: Stop, grace_s: float, links: list[Link]) -> None:
        self._gang.tell("stop", links=links, reason=stop.reason, signal=stop.signal, grace_s=grace_s, now=stop.now)
