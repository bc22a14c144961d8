"""Fence of one host: ends its ranks by order, at a time limit, after a failure, or when the lease expires.

It runs in a thread of its own that waits for nothing but the clock: no disk, no container engine. So the ranks end in
time on a host whose engine hangs or whose disk is full (docs/decisions/0006-guard-on-a-sick-host.md).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from . import host_shutdown, processes
from .orders import STOP, STOP_NOW
from .protocol import ASKED_TO_END, HOST_SHUTS_DOWN, LEASE_EXPIRED, MAX_DURATION, RANK_FAILED

if TYPE_CHECKING:
    from .orders import Orders
    from .ranks import Rank

TURN_S = 0.2
# At the longest while ranks run: orders wake the thread, and it knows when limits are reached.
REST_S = 5.0
KILL_AGAIN_S = 1.0


class Fence:
    """Decides when the units of a guard end, and signals them. `phase` goes from `prepared` to `stopping`."""

    def __init__(self, units: List[Rank], ranks: List[Rank], limits: Dict[str, Any], orders: Orders) -> None:
        self._units = units
        self._ranks = ranks
        self._limits = limits
        self._orders = orders
        self.phase = "prepared"
        self.reason = ""
        self.stopping_at: Optional[float] = None  # time of the host's clock
        self.term_received = False
        self.tell: Callable[[], None] = lambda: None
        self._started_at = 0.0
        self._stop_order: Optional[Dict[str, Any]] = None
        self._kill_at: Optional[float] = None
        self._fail_at: Optional[float] = None
        self._signum = int(signal.SIGTERM)
        self._warned = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fence", daemon=True)

    @property
    def stopping(self) -> bool:
        """Whether the ranks are being ended."""
        return self.phase == "stopping"

    def begin(self) -> None:
        """Watch from now on; called before the first rank starts."""
        self._started_at = time.monotonic()
        self.phase = "running"
        self._thread.start()

    def close(self) -> None:
        """End the thread: no rank is left."""
        self._over.set()
        self._orders.changed.set()
        if self._thread.is_alive():
            self._thread.join()

    def stop_at(self, moment: float) -> None:
        """Stop all ranks at this time (monotonic), because one of them failed."""
        self._fail_at = moment
        self._orders.changed.set()

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self.turn()
                self._orders.changed.wait(self._pause_s())
                self._orders.changed.clear()
        finally:
            if not self._over.is_set():  # an error of this thread: without it nobody keeps the lease
                try:
                    self.kill()
                finally:
                    os.kill(os.getpid(), signal.SIGTERM)

    def _pause_s(self) -> float:
        if self.stopping:
            waits_s = [TURN_S, *([] if self._kill_at is None else [self._kill_at - time.monotonic()])]
        else:
            waits_s = [REST_S, *self._limits_in_s()]
        return max(0.01, min(waits_s))

    def _limits_in_s(self) -> List[float]:
        """Seconds until each limit that is not reached yet."""
        age, limits = time.monotonic() - self._started_at, self._limits
        end, waits_s = limits["max_duration_s"], []
        if self._fail_at is not None:
            waits_s.append(self._fail_at - time.monotonic())
        if end:
            waits_s.append(end - age)
            if limits["warn_before_s"] and not self._warned:
                waits_s.append(end - limits["warn_before_s"] - age)
        if limits["lease_s"]:
            waits_s.append(limits["lease_s"] - self._orders.controller_gone_s())
        return waits_s

    def turn(self) -> None:
        """One look at orders, limits and the lease."""
        self._obey()
        self._enforce()
        self._escalate()

    def _obey(self) -> None:
        now = self._orders.get(STOP_NOW)
        if now is not None:
            if now != self._stop_order:
                self._stop_order = now
                self.stop(now.get("reason", "stopped now"), signum=signal.SIGKILL, grace_s=0.0)
            return
        order = self._orders.get(STOP)
        if order is not None and order != self._stop_order:
            self._stop_order = order
            signum = getattr(signal, str(order.get("signal", "SIGTERM")), signal.SIGTERM)
            self.stop(order.get("reason", "stopped"), signum=signum, grace_s=float(order.get("grace_s", 30.0)))
        elif self.term_received:
            self.term_received = False
            if self.phase == "running" and host_shutdown.is_under_way():
                self._stop_for_shutdown()
            else:
                self.stop(ASKED_TO_END, signum=signal.SIGTERM, grace_s=self._limits["failure_grace_s"])

    def notice_shutdown(self, died: List[Rank]) -> None:
        """End the ranks if the host shuts down, which these ranks that failed were told before this guard."""
        if self.phase == "running" and host_shutdown.ended_one_of(died):
            self._stop_for_shutdown()

    def _stop_for_shutdown(self) -> None:
        self.stop(HOST_SHUTS_DOWN, signum=signal.SIGTERM, grace_s=self._limits["failure_grace_s"])

    def _enforce(self) -> None:
        if self.phase != "running":
            return
        limits, age = self._limits, time.monotonic() - self._started_at
        # A peer can exit before the rank that caused its failure: wait for the cause before signalling any rank.
        if self._fail_at is not None and time.monotonic() >= self._fail_at:
            self.stop(RANK_FAILED, signum=signal.SIGTERM, grace_s=limits["failure_grace_s"])
        elif self._is_time_to_warn(age):
            self._warn()
        elif limits["max_duration_s"] and age > limits["max_duration_s"]:
            signum = getattr(signal, limits["signal"], signal.SIGTERM)
            self.stop(MAX_DURATION, signum=signum, grace_s=limits["grace_s"])
        elif limits["lease_s"] and self._orders.controller_gone_s() > limits["lease_s"]:
            self.stop(LEASE_EXPIRED, signum=signal.SIGTERM, grace_s=limits["grace_s"])

    def _is_time_to_warn(self, age: float) -> bool:
        before, end = self._limits["warn_before_s"], self._limits["max_duration_s"]
        return bool(before and end and not self._warned and age > end - before)

    def _warn(self) -> None:
        """Send the warning signal before the time limit, so that ranks can save a checkpoint."""
        self._warned = True
        for rank in self._ranks:
            if rank.running:
                rank.warn(getattr(signal, self._limits["warn_signal"], signal.SIGUSR1))

    def stop(self, reason: str, *, signum: int, grace_s: float) -> None:
        """Signal every running rank and kill it after `grace_s`. A later stop can only shorten the grace period."""
        kill_at = time.monotonic() + grace_s
        if self.phase == "running":
            self.phase, self.reason, self.stopping_at = "stopping", reason, time.time()
        elif self._kill_at is not None and kill_at >= self._kill_at:
            return
        self._kill_at, self._signum = kill_at, signum
        self._send(self._units, signum)
        self.tell()

    @staticmethod
    def _send(units: List[Rank], signum: int) -> None:
        """Signal these ranks; an error with one of them does not prevent the signals to the others."""
        for unit in units:
            with contextlib.suppress(Exception):
                unit.send(signum)

    def _escalate(self) -> None:
        if self._kill_at is None:
            return
        if time.monotonic() >= self._kill_at:
            self._kill_at = time.monotonic() + KILL_AGAIN_S  # again, in case a signal went through the engine
            self.kill()
        # those whose start was under way
        self._send([unit for unit in self._units if unit.running and not unit.signalled], self._signum)

    def kill(self) -> None:
        """Send SIGKILL to all ranks, and to what their processes forked."""
        self._send(self._units, signal.SIGKILL)
        if not any(unit.spec.get("container") for unit in self._units):
            processes.kill_descendants(os.getpid())
