"""The guard: owns the ranks of one run on one host, also without a controller, and ends with them.

Three threads: this loop starts ranks, notices their ends and writes files, and may wait for a disk or the engine; the
fence ends ranks; the control socket takes orders and answers with the state.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from . import gpus, guard_leases, kernel_log, leftovers, processes, rank_failure
from .control_socket import ControlServer
from .fence import Fence
from .frozen_ranks import FrozenRanks
from .guard_link import DISK_PROBLEM
from .orders import GO, STOP, STOP_NOW, Orders
from .process_ends import ProcessEnds
from .protocol import PROTOCOL
from .ranks import Rank, reap
from .recent_files import RecentFiles, not_aged
from .run_directory import HostRun, read_json
from .sampling import Sampling
from .socket_activity import Traffic
from .state_file import StateFile
from .torchrun_ranks import make_all
from .usage_record import UsageRecord

# Intervals between looks: without running ranks, with them, and while the kernel tells of their ends.
TICK_S, WATCH_S, REST_S = 0.05, 0.2, 1.0
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
        self.orders = Orders()
        self.fence = Fence(self.units, self.ranks, self.limits, self.orders)
        self.fence.tell = self.publish
        for unit in self.units:
            unit.must_stop = self._must_stop
        self.state_file = StateFile(place.state)
        self.control: Optional[ControlServer] = None
        self.term_received = False
        self._ended = False
        self._failed_at: Optional[float] = None
        self.kernel_log = kernel_log.KernelLog()
        self.ends = ProcessEnds()
        self.traffic = Traffic()
        self.files = RecentFiles(spec.get("owned_paths", []))
        self.frozen = FrozenRanks(self.orders, place, self.limits)
        self.sampling = Sampling(place, self.limits)
        self.usage = UsageRecord(spec, place)
        self._identity = {
            "key": place.run_key,
            "protocol": PROTOCOL,
            "version": spec.get("version", ""),
            "boot": processes.boot_id(),
            "guard_pid": os.getpid(),
            "guard_ticks": processes.start_ticks(os.getpid()),
        }

    # -- state ---------------------------------------------------------------------------------------
    def _state(self) -> Dict[str, Any]:
        return {
            **self._identity,
            "phase": "ended" if self._ended else self.fence.phase,
            "reason": self.fence.reason,
            "stopping_at": self.fence.stopping_at,
            "traffic_at": self.traffic.moved_at,
            "kernel_problem": self.kernel_log.problem,
            "agent": self.agent.identity() if self.agent else None,
            "ranks": {str(rank.number): dict(rank.row) for rank in self.ranks},
        }

    def write_state(self, *, check: bool = False) -> None:
        """Send the state to the channels, then store it; `check`: test now whether the disk accepts data."""
        known = self.state_file.problem
        self.publish()
        self.state_file.write(self._state(), check=check)
        if self.state_file.problem != known:
            self.publish()

    def publish(self) -> None:
        """Send the state to the channels without using the disk; also called by the fence."""
        if self.control is not None:
            self.control.publish({**self._state(), DISK_PROBLEM: self.state_file.problem})

    # -- life ----------------------------------------------------------------------------------------
    def run(self) -> None:
        """Wait for `go`, start the ranks, watch them until all have ended, and end."""
        signal.signal(signal.SIGTERM, self._on_term)
        signal.signal(signal.SIGINT, self._on_term)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        processes.become_subreaper()
        processes.no_core_files()
        self.listen()
        self.write_state()
        if self._wait_for_go():
            try:
                self._start()
                self._watch()
            except BaseException:  # without this loop nobody would report the ranks' ends
                self.fence.kill()
                raise
            self.fence.close()
            self.usage.end()
        else:
            self._never_started()
        self._end()
        if self.fence.reason == NO_START:  # no controller will clean up a run that never started
            leftovers.clean(self.place, by_guard=True)

    def refuse(self, why: str) -> None:
        """End before anything was started: the first state that a channel reads is the last one."""
        self.fence.reason, self._ended = why, True
        self.listen()
        self._conclude()

    def listen(self) -> None:
        """Open the control socket."""
        with contextlib.suppress(OSError):  # another process has the name: files remain
            self.control = ControlServer(self.place.root, self.orders)

    def _on_term(self, _signum: int, _frame: Any) -> None:
        self.term_received = self.fence.term_received = True
        self.orders.changed.set()

    def _wait_for_go(self) -> bool:
        while True:
            self.orders.read_files(self.place)
            if self.orders.get(GO) is not None:
                return True
            if self.term_received or self.orders.get(STOP) or self.orders.get(STOP_NOW):
                self.fence.reason = "stopped before it started"
                return False
            if self.orders.controller_gone_s() > self.limits["go_wait_s"]:
                self.fence.reason = NO_START
                return False
            self.orders.changed.wait(TICK_S)
            self.orders.changed.clear()

    def _never_started(self) -> None:
        """Record an end for every rank, because a supervisor that takes over waits for it."""
        for rank in self.ranks:
            rank.not_started(self.fence.reason)

    def _start(self) -> None:
        self.fence.begin()
        self.usage.begin()
        for unit in self.units:
            if self.fence.stopping or any(other.may_start_late for other in self.units):
                unit.not_started("not started: %s" % (self.fence.reason or "the engine does not answer"))
            else:
                unit.start()
        self.write_state()

    def _must_stop(self) -> bool:
        """Whether to stop waiting while the engine starts a container."""
        self.orders.read_files(self.place)
        return self.fence.stopping

    def _watch(self) -> None:
        while any(rank.running for rank in [*self.units, *self.ranks]):
            self._wait_for_news()
            self.orders.read_files(self.place)
            self._notice_ends()
            self._prevent_late_starts()
            self._notice_traffic()
            self.files.renew()
            self.frozen.look(self.ranks, stopping=self.fence.stopping)
            self.sampling.keep()
            self.usage.keep()
            self.write_state()

    def _wait_for_news(self) -> None:
        """Until a rank's process ends, at most REST_S, if nothing else can happen that only a look shows."""
        pids = [int(unit.row["pid"] or 0) for unit in self.units if unit.running]
        calm = (
            self.control is not None
            and self.control.attended
            and self.agent is None
            and not self.fence.stopping
            and self._failed_at is None
        )
        if calm and all(pids) and not any(unit.may_start_late for unit in self.units):
            precise_s = float(self.limits.get("idle_timeout_s") or 60) / 60  # traffic is looked at as often
            self.ends.wait(pids, max(WATCH_S, min(REST_S, precise_s)), WATCH_S)
        else:
            time.sleep(WATCH_S)

    def _notice_ends(self) -> None:
        lived = [rank for rank in self.ranks if rank.running]
        for rank in lived:
            if rank.witness is not None:
                rank.witness.look()
        reap(self.units)
        self._poll_units()
        if self.agent is not None:
            self.agent.poll()
        if died := [rank for rank in lived if rank.failed]:
            self.fence.notice_shutdown(died)
            self._read_kernel_log(died)
            self._note_full_disk(died)
        self._schedule_stop()

    def _poll_units(self) -> None:
        """Record ended units. The time limit of the engine starts when a rank ends, not when it is polled."""
        looked = 0.0
        for unit in self.units:
            if time.monotonic() - looked > WATCH_S:  # at first, and after a poll that had to wait
                for other in self.units:
                    other.look()
                looked = time.monotonic()
            unit.poll()

    def _read_kernel_log(self, died: List[Rank]) -> None:
        lines, addresses = self.kernel_log.lines(), gpus.pci_addresses()
        for rank in died:
            kernel_log.explain(rank.witness, lines, rank.row, addresses, problem=self.kernel_log.problem)

    def _note_full_disk(self, died: List[Rank]) -> None:
        """Record in the rank's row that its log may lack the reason of the failure."""
        self.write_state(check=True)
        for rank in died if self.state_file.problem else ():
            rank.row["detail"] = rank.row["detail"] or "its log is incomplete: %s" % self.state_file.problem

    def _schedule_stop(self) -> None:
        """After a failure the fence stops the others; later while every failed rank reports a lost peer."""
        died = [rank for rank in self.ranks if rank.failed]
        if not died or self.fence.stopping:
            return
        self._failed_at = self._failed_at or time.monotonic()
        blame = all(rank_failure.blames_a_peer(self.place.log(rank.number)) for rank in died)
        self.fence.stop_at(self._failed_at + float(self.limits["patience_s" if blame else "settle_s"]))

    def _notice_traffic(self) -> None:
        if self.limits.get("idle_timeout_s"):
            self.traffic.look([int(rank.row["pid"]) for rank in self.ranks if rank.running and rank.row["pid"]])

    def _end(self) -> None:
        """End the sampler and all processes that ranks forked: SIGTERM, one second, SIGKILL."""
        self.sampling.end()
        if processes.kill_descendants(os.getpid(), signal.SIGTERM):
            deadline = time.monotonic() + 1.0
            while time.monotonic() < deadline and processes.descendants(os.getpid()):
                reap(self.units)
                time.sleep(TICK_S)
            processes.kill_descendants(os.getpid())
        while any(unit.may_start_late for unit in self.units) and not self.term_received:
            self._prevent_late_starts()
            self.write_state()
            time.sleep(WATCH_S)
        self._conclude()

    def _prevent_late_starts(self) -> None:
        for unit in self.units:
            unit.prevent_late_start()

    def _conclude(self) -> None:
        """Write the last state; stay until the disk takes it, or until somebody who has read it cleans up."""
        self._ended = True
        self.write_state(check=True)
        while not self.state_file.stored and not self.term_received and self._is_wanted():
            time.sleep(WATCH_S)
            self.write_state()
        if self.control is not None:
            self.control.close()

    def _is_wanted(self) -> bool:
        """Whether somebody may still read the last state."""
        return self.fence.reason != NO_START and self.place.root.is_dir()


def main(root: str) -> None:
    """Entry point of the verb `guard`; a lock allows one guard per attempt directory."""
    place = HostRun(Path(root))
    with open(str(place.guard_lock), "w") as lock, not_aged(place.root):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            taken = guard_leases.take(read_json(place.spec) or {}, place.run_key)
        except guard_leases.NotFreeError as error:
            Guard(place).refuse(str(error))
            return
        Guard(place).run()
        taken.close()
