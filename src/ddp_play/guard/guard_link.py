"""A channel's link to the guard of its attempt: the control socket, or files where no guard listens on one.

Files remain for guards of an earlier version, and for the last state of a guard that has ended.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from . import processes
from .control_socket import ControlClient
from .run_directory import read_json

if TYPE_CHECKING:
    from .run_directory import HostRun

# A guard sends its state at once when a channel connects.
STATE_S = 2.0
RECONNECT_S = 0.5
# Each heartbeat that is passed on wakes the guard: not sooner than this after the last, but ten times in a lease.
RENEW_S = 1.5
# Field of a state that a guard tells, and that its file lacks: why the file cannot be written.
DISK_PROBLEM = "disk_problem"


def same_boot(state: Dict[str, Any]) -> bool:
    """Whether the state was written since this host booted; otherwise its pids may belong to other processes."""
    return bool(state.get("boot")) and state.get("boot") == processes.boot_id()


def guard_alive(state: Dict[str, Any]) -> bool:
    """Whether the guard that wrote this state is running."""
    pid, ticks = state.get("guard_pid"), state.get("guard_ticks")
    return bool(pid and ticks) and same_boot(state) and processes.alive(int(pid or 0), ticks)


def look(place: HostRun) -> Tuple[Dict[str, Any], bool]:
    """(newest state of an attempt, whether its guard runs), asked once."""
    link = GuardLink(place)
    try:
        return link.look()
    finally:
        link.close()


class GuardLink:
    """Connected when it is first needed, and again when a guard appears."""

    def __init__(self, place: HostRun) -> None:
        self.place = place
        self._client: Optional[ControlClient] = None
        self._tried = float("-inf")
        self._stamp: Any = None
        self._sent: Optional[Dict[str, Any]] = None
        self._renewed_s = float("-inf")  # of the host's uptime
        self._renew_s: Optional[float] = None

    def _connected(self, *, at_once: bool = True) -> Optional[ControlClient]:
        """The connection; `at_once`: try even if there was no guard a moment ago."""
        if self._client is not None and self._client.is_open:
            return self._client
        if not at_once and self._client is None and time.monotonic() - self._tried < RECONNECT_S:
            return None
        self._tried, self._client = time.monotonic(), None
        with contextlib.suppress(OSError):
            client = ControlClient(self.place.root, [0, os.geteuid()])  # guards of root and of this user
            if client.first_state(STATE_S) is not None:
                client.hello()
                self._client = client
            else:
                client.close()
        return self._client

    def descriptors(self) -> List[int]:
        """What to wait on for news of the guard."""
        return [self._client.fileno()] if self._client is not None and self._client.is_open else []

    def look(self) -> Tuple[Dict[str, Any], bool]:
        """(newest state, whether the guard runs); read again when the guard has ended, for its last state."""
        client = self._connected()
        if client is not None:
            client.read()
            if client.is_open and client.state is not None:
                return client.state, True
        state = read_json(self.place.state) or {}
        alive = guard_alive(state)
        return (state, True) if alive else (read_json(self.place.state) or {}, False)

    def order(self, name: str, value: Optional[Dict[str, Any]] = None) -> None:
        """Give an order to the guard. Raises OSError."""
        client = self._connected()
        if client is not None:
            with contextlib.suppress(ConnectionError):  # it ended meanwhile, as if there had been none
                client.order(name, value or {})
                return
        self.place.order(name, value)

    def renew(self, seen_s: float) -> None:
        """Renew the lease, if that is due. A host that cannot store it must not count as silent."""
        if seen_s - self._renewed_s < self._renewal_s():
            return
        with contextlib.suppress(OSError):
            client = self._connected()
            if client is not None:
                client.beat(seen_s)
            elif self.place.root.is_dir():
                self.place.renew_lease(seen_s)
            self._renewed_s = seen_s

    def _renewal_s(self) -> float:
        """Shortest time between two heartbeats that are passed on; 0 while nobody knows how long the lease is."""
        if self._renew_s is None and (spec := read_json(self.place.spec)) is not None:
            self._renew_s = min(RENEW_S, float(spec.get("limits", {}).get("lease_s") or 10 * RENEW_S) / 10)
        return self._renew_s or 0.0

    def fresh(self) -> Optional[Dict[str, Any]]:
        """The state, if it has changed since the last call or since `again`."""
        client = self._connected(at_once=False)
        if client is not None:
            client.read()
        state = client.state if client is not None and client.is_open else self._changed_file()
        if state is None or {DISK_PROBLEM: "", **state} == self._sent:
            return None
        self._sent = {DISK_PROBLEM: "", **state}
        return state

    def _changed_file(self) -> Optional[Dict[str, Any]]:
        try:
            stat = self.place.state.stat()
        except OSError:
            return None
        stamp = (stat.st_ino, stat.st_mtime_ns)
        if stamp == self._stamp and self._sent is not None:
            return None
        self._stamp = stamp
        return read_json(self.place.state)

    def again(self) -> None:
        """Let `fresh` return the state once more."""
        self._sent = None

    def close(self) -> None:
        """End the connection; the guard goes on."""
        if self._client is not None:
            self._client.close()
            self._client = None
