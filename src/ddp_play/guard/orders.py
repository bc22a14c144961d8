"""Orders of the controller and its lease, as a guard keeps them in memory.

They arrive on the control socket, so they need no disk. A channel of an earlier version leaves files instead.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Dict, Optional

from . import processes
from .run_directory import FROZEN
from .wakeup import Wakeup

if TYPE_CHECKING:
    from .run_directory import HostRun

GO, STOP, STOP_NOW = "go", "stop", "stop-now"
NAMES = (GO, STOP, STOP_NOW, FROZEN)


class Orders:
    """Written by the thread of the control socket and by `read_files`, read by all threads of the guard."""

    def __init__(self) -> None:
        self.changed = Wakeup()  # also set by the signal handler
        self._given: Dict[str, Dict[str, Any]] = {}
        self._seen_s = processes.uptime_s()
        self._lease_stamp = 0

    def give(self, name: str, value: Dict[str, Any]) -> None:
        """Store an order; a later one of the same name replaces it."""
        self._given[name] = value
        self.changed.set()

    def get(self, name: str) -> Optional[Dict[str, Any]]:
        """Content of the order of this name; None if there is none."""
        return self._given.get(name)

    def take_back(self, name: str, place: HostRun) -> None:
        """Remove an order, and its file."""
        place.take_back(name)
        self._given.pop(name, None)

    def renew(self, seen_s: float) -> None:
        """Record that the controller knew the host time `seen_s` (`processes.uptime_s`); it cannot be in the future."""
        self._seen_s = max(self._seen_s, min(seen_s, processes.uptime_s()))

    def controller_gone_s(self) -> float:
        """Seconds since the controller last had news of this host.

        The arrival of a heartbeat does not count, because one may have waited in a queue while the network was cut.
        Each heartbeat carries the newest time of this host that the controller knew, and that time counts.
        """
        return processes.uptime_s() - self._seen_s

    def read_files(self, place: HostRun) -> None:
        """Take what a channel without the control socket left in files."""
        for name in NAMES:
            value = place.ordered(name)
            if value is not None and value != self._given.get(name):
                self.give(name, value)
        with contextlib.suppress(OSError):
            stamp = place.lease.stat().st_mtime_ns
            if stamp != self._lease_stamp:
                self._lease_stamp = stamp
                self.renew(place.lease_seen_s())
