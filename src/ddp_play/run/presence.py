"""Presence of a run on its hosts between two attempts.

Between the cleanup of an attempt and the preparation of the next one no guard and no file of the run is on its hosts.
The channels of the ended attempt stay open for that time: a host with such a channel counts as busy, so that nobody
restarts its engine or reboots it, and keeps the run's name.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_play.run.host_links import Gang

# The host's side of a channel ends after 30 s without a message.
BEAT_S = 5.0


class Presence:
    """The channels of the last attempt, until the next one is prepared."""

    def __init__(self) -> None:
        self._gang: Gang | None = None
        self._beaten = 0.0

    def stay(self, gang: Gang) -> None:
        """Keep the channels to those hosts of this gang that have confirmed their cleanup, instead of earlier ones.

        Others may still send output of the ended attempt, which would get into the logs of the next one.
        """
        self.leave()
        for link in gang.links:
            link.following = False
            if link.channel is not None and (link.lost or link.replies.get("cleaned", {"left": True})["left"]):
                link.channel.close("its cleanup is not confirmed")
        self._gang = gang

    def keep(self) -> None:
        """Send a heartbeat if one is due. It renews no lease, so that ranks that a host could not end will end."""
        if self._gang is not None and time.monotonic() - self._beaten > BEAT_S:
            self._beaten = time.monotonic()
            self._gang.tell("beat")
            self._gang.pump(0.0)

    def leave(self) -> None:
        """Close the channels: the next attempt is prepared."""
        if self._gang is not None:
            self._gang.close()
            self._gang = None

    def close(self) -> None:
        """Close the channels: the run ends."""
        self.leave()
