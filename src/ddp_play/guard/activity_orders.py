"""Order of `ddp-play top`: the runs on this host and its load."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable

from .host_activity import HostActivity

if TYPE_CHECKING:
    from .protocol import Header


class ActivityOrders:
    """Answers the activity of this host. `send`: of the channel."""

    def __init__(self, send: Callable[..., Any]) -> None:
        self.send = send
        self._activity = HostActivity()

    def on_activity_read(self, _header: Header) -> None:
        """Answer what runs here, with rates since the order before."""
        self.send("activity_read", json.dumps(self._activity.read()).encode())
