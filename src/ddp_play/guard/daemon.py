"""The guard: owns the ranks of one run on one host, also without a controller, and ends with them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from . import gpus, hang_evidence, kernel_log, leases, leftovers, pmi_server, processes, rank_failure
from .ranks import Rank, reap
from .recent_files import RecentFiles
from .run_directory import FROZEN, HostRun, read_json, write_json
from .socket_activity import Traffic
from .torchrun_ranks import make_all

TICK_S = 0.05
# Interval while ranks run: at 0.05 s the guard took 1 % of a core from the ranks.
WATCH_S = 0.2
NO_START = "no start signal came"


class Guard:
    """One run on one host, from `prepared` to `ended`. The only writer of state.json."""

    def __init__(self, place: HostRun) -> None:
        spec = read_json(place.spec)
        if spec is None:
            raise SystemExit("no readable %s" % place.spec)
        self.place = place
        self.spec = spec
        self.limits: Dict[str, Any] = spec["limits"]
        # ranks are reported, units are started and signalled: the same objects, unless torchrun starts the ranks
        self.ranks, self.units, self.agent = make_all(spec, place)
        self.phase = "prepared"
        self.reason = ""
        self.term_received = False
        self._stop_order: Optional[Dict[str, Any]] = None
        self._kill_at: Optional[float] = None
        self._failed_at: Optional[float] = None
        self._started_at = 0.0
        self._lease_stamp = 0
        self._lease_seen = processes.uptime_s()
        self._warned = False
        self._frozen_at: Optional[float] = None
        self._written: Optional[Dict[str, Any]] = None
        self.kernel_log = kernel_log.KernelLog()
        self.traffic = Traffic()
        self.files = RecentFiles(spec.get("owned_paths", []))

    # -- state ---------------------------------------------------------------------------------------
    def write_state(self) -> None:
        """Write state.json if the state has changed."""
        value = {
            "phase": self.phase,
            "reason": self.reason,
            "boot": processes.boot_id(),
            "guard_pid": os.getpid(),
            "guard_ticks": processes.start_ticks(os.getpid()),
            "traffic_at": self.traffic.moved_at,
            "kernel_problem": self.kernel_log.problem,
            "ranks": {str(rank.number): rank.row for rank in self.ranks},
        }
        if value != self._written:
            write_json(self.place.state, value)
            self._written = _copy(value)

    def controller_gone_s(self) -> float:
        """Seconds since the controller last had news of this host.

        The arrival of a heartbeat does not count, because one may have waited in a queue while the network was cut.
        Each heartbeat carries the newest time of this host that the controller knew, and that time counts.
        """
        with contextlib.suppress(OSError):
            stamp = self.place.lease.stat().st_mtime_ns
            if stamp != self._lease_stamp:
                self._lease_stamp = stamp
                self._lease_seen = max(self._lease_seen, self.place.lease_seen_s())
        return processes.uptime_s() - self._lease_seen

    # -- life ----------------------------------------------------------------------------------------
    def run(self) -> None:
        """Wait for `go`, start the ranks, watch them until all have ended, and end."""
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, self._on_term)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        processes.become_subreaper()
        processes.no_core_files()
        self.write_state()
        if self._wait_for_go():
            self._start()
            self._watch()
        else:
            self._never_started()
        self._end()
        if self.reason == NO_START:  # no controller will clean up a run that never started
            leftovers.clean(self.place, by_guard=True)

    def _on_term(self, _signum: int, _frame: Any) -> None:
        self.term_received = True

    def _wait_for_go(self) -> bool:
        while True:
            if self.place.ordered("go") is not None:
                return True
            if self.term_received or self.place.ordered("stop") or self.place.ordered("stop-now"):
                self.reason = "stopped before it started"
                return False
            if self.controller_gone_s() > self.limits["go_wait_s"]:
                self.reason = NO_START
                return False
            time.sleep(TICK_S)

    def _never_started(self) -> None:
        """Record an end for every rank, because a supervisor that takes over waits for it."""
        for rank in self.ranks:
            rank.signalled = True
            rank.ended(None, detail=self.reason)

    def _start(self) -> None:
        self._started_at = time.monotonic()
        self.phase = "running"
        for unit in self.units:
            unit.start()
        self.write_state()

    def _watch(self) -> None:
        while any(rank.running for rank in [*self.units, *self.ranks]):
            self._notice_ends()
            self._notice_traffic()
            self.files.renew()
            self._obey()
            self._enforce()
            self._escalate()
            self._thaw_abandoned()
            self.write_state()
            time.sleep(WATCH_S)

    def _notice_ends(self) -> None:
        lived = [rank for rank in self.ranks if rank.running]
        for rank in lived:
            if rank.witness is not None:
                rank.witness.look()
        reap(self.units)
        for unit in self.units:
            unit.poll()
        if self.agent is not None:
            self.agent.poll()
        if died := [rank for rank in lived if rank.failed]:
            self._read_kernel_log(died)
        if self._failed_at is None and any(rank.failed for rank in self.ranks):
            self._failed_at = time.monotonic()

    def _read_kernel_log(self, died: List[Rank]) -> None:
        lines, addresses = self.kernel_log.lines(), gpus.pci_addresses()
        for rank in died:
            kernel_log.explain(rank.witness, lines, rank.row, addresses)

    def _notice_traffic(self) -> None:
        if self.limits.get("idle_timeout_s"):
            self.traffic.look([int(rank.row["pid"]) for rank in self.ranks if rank.running and rank.row["pid"]])

    def _obey(self) -> None:
        now = self.place.ordered("stop-now")
        if now is not None:
            self.stop(now.get("reason", "stopped now"), signum=signal.SIGKILL, grace_s=0.0)
            return
        order = self.place.ordered("stop")
        if order is not None and order != self._stop_order:
            self._stop_order = order
            signum = getattr(signal, str(order.get("signal", "SIGTERM")), signal.SIGTERM)
            self.stop(order.get("reason", "stopped"), signum=signum, grace_s=float(order.get("grace_s", 30.0)))
        elif self.term_received:
            self.term_received = False
            self.stop("the guard was asked to end", signum=signal.SIGTERM, grace_s=self.limits["failure_grace_s"])

    def _enforce(self) -> None:
        """Stop without a controller: after a failure on this host, at the time limit, or when the lease expires."""
        if self.phase != "running":
            return
        limits, age = self.limits, time.monotonic() - self._started_at
        # A peer can exit before the rank that caused its failure: wait for the cause before signalling any rank.
        if self._failed_at is not None and time.monotonic() - self._failed_at >= self._settle_s():
            self.stop("a rank on this host failed", signum=signal.SIGTERM, grace_s=limits["failure_grace_s"])
        elif self._is_time_to_warn(age):
            self._warn()
        elif limits["max_duration_s"] and age > limits["max_duration_s"]:
            signum = getattr(signal, limits["signal"], signal.SIGTERM)
            self.stop("max_duration reached", signum=signum, grace_s=limits["grace_s"])
        elif limits["lease_s"] and self.controller_gone_s() > limits["lease_s"]:
            self.stop("no controller for longer than the lease", signum=signal.SIGTERM, grace_s=limits["grace_s"])

    def _settle_s(self) -> float:
        """Seconds to wait for the cause; longer while every failed rank reports a lost peer."""
        died = [rank for rank in self.ranks if rank.failed]
        blame = all(rank_failure.blames_a_peer(self.place.log(rank.number)) for rank in died)
        return float(self.limits["patience_s" if blame else "settle_s"])

    def _is_time_to_warn(self, age: float) -> bool:
        before, end = self.limits["warn_before_s"], self.limits["max_duration_s"]
        return bool(before and end and not self._warned and age > end - before)

    def _warn(self) -> None:
        """Send the warning signal before the time limit, so that ranks can save a checkpoint."""
        self._warned = True
        for rank in self.ranks:
            if rank.running:
                rank.warn(getattr(signal, self.limits["warn_signal"], signal.SIGUSR1))

    def stop(self, reason: str, *, signum: int, grace_s: float) -> None:
        """Signal every running rank and kill it after `grace_s`. A later stop can only shorten the grace period."""
        kill_at = time.monotonic() + grace_s
        if self.phase == "running":
            self.phase, self.reason = "stopping", reason
        elif self._kill_at is not None and kill_at >= self._kill_at:
            return
        self._kill_at = kill_at
        for unit in self.units:
            unit.send(signum)

    def _escalate(self) -> None:
        if self._kill_at is None or time.monotonic() < self._kill_at:
            return
        self._kill_at = time.monotonic() + 1.0  # again, in case the engine did not answer
        for unit in self.units:
            unit.send(signal.SIGKILL)
        if not any(unit.spec.get("container") for unit in self.units):
            processes.kill_descendants(os.getpid())

    def _thaw_abandoned(self) -> None:
        """Continue ranks that were frozen for evidence and not ended since: their controller is lost."""
        if self.phase != "running" or self.place.ordered(FROZEN) is None:
            self._frozen_at = None
        elif self._frozen_at is None:
            self._frozen_at = time.monotonic()
        elif time.monotonic() - self._frozen_at > self.limits["thaw_s"]:
            for rank in self.ranks:
                if rank.running and rank.row["pid"]:
                    pid = int(rank.row["pid"])
                    hang_evidence.thaw(hang_evidence.main_processes(pid) or [pid])
            self.place.take_back(FROZEN)

    def _end(self) -> None:
        """End all processes that ranks forked: SIGTERM, one second, SIGKILL."""
        if processes.kill_descendants(os.getpid(), signal.SIGTERM):
            deadline = time.monotonic() + 1.0
            while time.monotonic() < deadline and processes.descendants(os.getpid()):
                reap(self.units)
                time.sleep(TICK_S)
            processes.kill_descendants(os.getpid())
        self.phase = "ended"
        self.write_state()


def _copy(value: Dict[str, Any]) -> Dict[str, Any]:
    return {**value, "ranks": {k: dict(row) for k, row in value["ranks"].items()}}


def main(root: str) -> None:
    """Entry point of the verb `guard`; a lock allows one guard per attempt directory."""
    place = HostRun(Path(root))
    with open(str(place.root / "guard.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        spec = read_json(place.spec) or {}
        held = {name: leases.hold(name) for name in spec.get("leases", [])}
        lost = [_taken(name, lease) for name, lease in held.items() if lease is None or not leases.takes_effect(name)]
        guard = Guard(place)
        slots = _take_slots(spec)
        if lost or slots is None:
            why = "lease taken: " + ", ".join(lost) if lost else leases.SLOTS_TAKEN
            guard.phase, guard.reason = "ended", why
            guard.write_state()
            return
        try:
            server = pmi_server.for_ranks(spec.get("pmi"), place.run_key)
        except OSError as error:
            guard.phase, guard.reason = "ended", "port taken: %s" % error
            guard.write_state()
            return
        for lease in (*filter(None, held.values()), *slots):
            lease.answer()
        guard.run()
        if server is not None:
            server.close()


def _taken(name: str, lease: Optional[leases.Lease]) -> str:
    """Name of an unusable lease, and its holder if that is another process."""
    return name if lease is not None else "%s by %s" % (name, leases.holder(name) or "another run")


def _take_slots(spec: Dict[str, Any]) -> Optional[List[leases.Lease]]:
    """Lease the slots of the ranks for the life of this process; None if other runs hold them."""
    wanted = spec.get("slots") or {"need": 0, "names": []}
    held = leases.hold_slots(wanted["names"], wanted["need"], leases.slot_scope())
    return held if len(held) == wanted["need"] else None
