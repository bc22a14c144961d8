"""Supervisor of one attempt: prepare and start all hosts, watch, stop, collect, clean up.

The same code runs under `ddp-play run`, under plain ansible-playbook (from the role's action plugin) and in
`ddp-play attach` after a controller died.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import Outcome, RunStatus, Verdict
from ddp_play.bundle.writer import Bundle
from ddp_play.errors import DdpPlayError, DiskFull, Interrupted, UsageError
from ddp_play.run.attempt_assignment import links_of
from ddp_play.run.collect_and_clean import clean, collect, drain, network_counters
from ddp_play.run.controller_disk_full import FullDisk, left_on_hosts
from ddp_play.run.fencing import dead_after
from ddp_play.run.hang_capture import capture, locate
from ddp_play.run.host_links import Gang
from ddp_play.run.host_spec import PATIENCE_S, SETTLE_S
from ddp_play.run.lost_hosts import declare_stuck, give_up_on_lost_hosts
from ddp_play.run.nccl_transport import TransportWatch
from ddp_play.run.prepare_and_start import Starter
from ddp_play.run.rank_observer import Observer
from ddp_play.run.rank_states import outcomes
from ddp_play.run.restart_decision import Ended
from ddp_play.run.stop_decision import GangView, Limits, Stop, decide
from ddp_play.run.verdict import EXIT_STOPPED, judge

if TYPE_CHECKING:
    from ddp_play.guard.protocol import Frame
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.host_links import Link
    from ddp_play.run.stop_requests import Orders

OPEN_S = 60.0
TICK_S = 0.1
# After a stop's grace is over the guards kill; this long later they must have said so.
STOP_SLACK_S = 15.0
NOT_STARTED = "stopped before it started"
BEFORE_START = ("lease_port", "prepare", "listen", "probe")
AT_THE_END = ("drain", "fetch")


@dataclass(frozen=True, slots=True)
class NotStarted:
    """An attempt that was refused or interrupted before its start, by this error.

    `prepared`: some host was told to prepare, so its number is used up. `signalled`: some may have started its ranks.
    `unfenced`: host -> the moment (monotonic) from which on no rank can be alive there; inf: never known.
    """

    error: DdpPlayError
    prepared: bool = False
    signalled: bool = False
    unfenced: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Collected:
    """An ended attempt after its clean-up.

    `kept`: host -> working directories that stay because not all was collected. `unfenced`: as in `NotStarted`; hosts
    that said that nothing is left are not in it. `disk_full`: the outcome is final, all of it is on the hosts.
    """

    outcome: Outcome
    kept: dict[str, list[str]] = field(default_factory=dict)
    unfenced: dict[str, float] = field(default_factory=dict)
    disk_full: bool = False


class Supervisor:
    """One attempt of one run; `Attempts` makes and locks the run."""

    def __init__(self, given: Assignment, orders: Orders) -> None:
        self.plan = given.plan
        self.given = given
        self.orders = orders
        self.paths = given.paths
        self.bundle = Bundle(given.paths)
        self.journal = Journal(given.paths.events)
        self.gang = Gang(
            links_of(given, {host.name for host in given.plan.hosts}),
            run_id=given.paths.run_id,
            token=given.token,
            attempt=given.attempt,
            on_data=self._on_data,
            on_host=lambda link, how: self.journal.emit("host", host=link.name, state=how),
            offsets=lambda host: self.bundle.offsets(self.plan, host),
            gives_up=self._gives_up,
        )
        timeouts = self.plan.timeouts
        self.limits = Limits(
            settle_s=SETTLE_S,
            patience_s=PATIENCE_S,
            grace_s=timeouts["grace"],
            failure_grace_s=timeouts["failure_grace"],
            host_timeout_s=timeouts["host_timeout"],
            idle_timeout_s=timeouts["idle_timeout"],
            start_timeout_s=timeouts["timeout"],
            signal=self.plan.signal,
        )
        self.observer = Observer(self.plan, self.gang, self.bundle, self.journal)
        self.disk = FullDisk(self.gang, self.bundle, self.journal)
        self.transport = TransportWatch(self.plan, self.paths, self.journal)
        self.stop: Stop | None = None
        self._wrong_fabric: Stop | None = None
        self._told_now = False
        self._kill_by = float("inf")
        self._seen: dict[int, dict[str, Any]] = {}  # of ranks that hung

    # -- the whole way -------------------------------------------------------------------------------
    def run(self) -> Ended | NotStarted:
        """From an unstarted plan to the end of its ranks. What fails before the start leaves nothing on the hosts."""
        self._phase(RunStatus.PREPARING)
        self.bundle.begin(self.plan)
        starter = Starter(self.given, self.gang, self.bundle, self.journal)
        try:
            self.gang.open_all(deadline_s=OPEN_S)
            starter.claim()
            if self.given.wait_s:
                starter.ask_for_slots()
            starter.probe(starter.prepare())
            self._check_orders(before_start=True)
            starter.go()
        except DdpPlayError as error:
            return self._abandon(starter, error)
        return self._watch_to_the_end()

    def _abandon(self, starter: Starter, error: DdpPlayError) -> NotStarted:
        """Clean up what was prepared. Hosts that may have got the start signal and did not answer are unfenced."""
        unconfirmed = starter.abandon()
        unfenced = {name: dead_after(link, self.plan) for name, link in unconfirmed.items() if starter.signalled}
        return NotStarted(error, starter.prepared, starter.signalled, unfenced)

    def take_over(self) -> Ended | NotStarted:
        """From the state that the hosts report to the end of the ranks: the controller of this run died."""
        self.gang.open_all(deadline_s=OPEN_S)
        if not any(link.state for link in self.gang.links):  # nothing of it is anywhere
            return NotStarted(
                UsageError(f"no host knows run {self.paths.run_id}", hint="it has ended and was cleaned up")
            )
        return self._watch_to_the_end()

    def _watch_to_the_end(self) -> Ended:
        self._phase(RunStatus.RUNNING)
        for link in self.gang.links:
            self.gang.follow(link)
        self._watch()
        undrained = drain(self.gang)
        if self.disk.wait_for_room(self.orders):
            undrained = drain(self.gang)
        network = network_counters(self.gang, self.plan, self.paths)
        self.bundle.update_run(network=network, nccl=self.transport.conclude())
        return Ended(
            self.given.num_ended + 1,
            self._judge(),
            unreachable={link.name: link.lost for link in self.gang.links if link.lost},
            undrained=tuple(undrained),
            disk_full=self.bundle.room.full,
        )

    def collect_and_clean(self, ended: Ended, *, goes_on: bool) -> Collected:
        """Bring the files of an ended attempt into the bundle and clean the hosts. `goes_on`: another attempt follows.

        What all attempts share stays where it is until the last one.
        """
        self._phase(RunStatus.COLLECTING)
        artifacts = not (goes_on and self.plan.source_shared)
        missing = [*ended.undrained, *collect(self.gang, self.plan, self.paths, artifacts=artifacts)]
        if self.bundle.room.full:
            return Collected(self.leave_on_hosts(ended.outcome), disk_full=True)
        outcome = self._cut_short(ended.outcome)
        left, kept = clean(self.gang, self.plan, missing, self.journal, goes_on=goes_on)
        self.gang.close()
        outcome = Outcome(outcome.status, outcome.verdict, outcome.ranks, tuple(missing), left)
        if not goes_on:
            self._finish(outcome)
        return Collected(outcome, kept, self._unfenced(outcome))

    def _gives_up(self, kind: str) -> str:
        """Before the start any order to stop ends the waiting, at the end only one to stop now that ended no rank."""
        order = self.orders.stop()
        if order is not None and kind in BEFORE_START:
            return NOT_STARTED
        if order is None or not order.now or self._told_now or kind not in AT_THE_END:
            return ""
        return f"collecting was stopped: {order.reason}"

    def _cut_short(self, outcome: Outcome) -> Outcome:
        """The outcome after `stop --now` during the collecting: stopped, although the ranks succeeded."""
        order = self.orders.stop()
        if order is None or not order.now or outcome.status is not RunStatus.SUCCEEDED:
            return outcome
        verdict = Verdict("stopped", f"{outcome.verdict.message}; collecting was stopped: {order.reason}", EXIT_STOPPED)
        return Outcome(RunStatus.STOPPED, verdict, outcome.ranks)

    def leave_on_hosts(self, outcome: Outcome) -> Outcome:
        """The disk is full here: nothing is removed from the hosts, so that `attach` can collect it later."""
        self.gang.close()
        outcome = left_on_hosts(outcome, self.paths, [link.name for link in self.gang.links])
        self._finish(outcome)
        return outcome

    def _judge(self) -> Outcome:
        ranks = outcomes(self.plan, self.gang, self.bundle)
        tails = {row.rank: self.bundle.tail(row.rank) for row in ranks}
        return judge(ranks, tails, self.stop, locate(self._seen, tails, self.paths))

    def _unfenced(self, outcome: Outcome) -> dict[str, float]:
        return {link.name: dead_after(link, self.plan) for link in self.gang.links if link.name in outcome.left}

    def _phase(self, status: RunStatus) -> None:
        self.bundle.update_run(status=str(status), attempt=self.given.attempt)
        self.journal.emit("phase", phase=str(status))

    # -- while it runs -------------------------------------------------------------------------------
    def _on_data(self, link: Link, frame: Frame) -> None:
        header, payload = frame
        if self.bundle.room.full:
            return  # requested again when there is room
        try:
            if header["t"] == "file":
                self.bundle.file(link.name, header, payload)
            elif not self.bundle.data(str(header["t"]), int(header["rank"]), int(header["at"]), payload):
                self.disk.follow_again(link)
            if header["t"] == "nccl":
                self._wrong_fabric = self.transport.heard(int(header["rank"])) or self._wrong_fabric
        except DiskFull as error:
            self.disk.pause(error)

    def _watch(self) -> None:
        while True:
            self.gang.pump(TICK_S)
            self.gang.keep_alive()
            give_up_on_lost_hosts(self.gang, self.journal, host_timeout_s=self.limits.host_timeout_s)
            self.disk.resume_when_there_is_room()
            view = self.observer.look()
            self.observer.report(view)
            if view.over:
                self._note_guard_reason(view)
                return
            self._check_orders()
            decision = (decide(view, self.limits) or self._wrong_fabric) if self.stop is None else None
            if decision is not None:
                if decision.kind == "idle":
                    self._seen = capture(self.gang, self.journal)
                self._order_stop(decision)
            if time.monotonic() > self._kill_by:
                declare_stuck(self.gang, self.journal, view)
                self._kill_by = float("inf")

    def _check_orders(self, *, before_start: bool = False) -> None:
        """Carry out stop requests: from `ddp-play stop`, Ctrl-C, or a signal to this process."""
        order = self.orders.stop()
        if order is None:
            return
        if before_start:
            raise Interrupted(NOT_STARTED)
        if self.stop is None or (order.now and not self._told_now):
            grace_s = 0.0 if order.now else self.limits.grace_s
            self._order_stop(Stop("stopped", order.reason, self.limits.signal, grace_s, now=order.now))

    def _order_stop(self, stop: Stop) -> None:
        """Tell every guard; a first reason stays the reason."""
        self.stop = self.stop if self.stop is not None and self.stop.kind != "stopped" else stop
        self._told_now = self._told_now or stop.now
        self._kill_by = time.monotonic() + stop.grace_s + STOP_SLACK_S
        self.journal.emit("stop", why=stop.kind, reason=stop.reason, grace_s=stop.grace_s, now=stop.now)
        self.bundle.update_run(status=str(RunStatus.STOPPING))
        self.gang.tell("stop", reason=stop.reason, signal=stop.signal, grace_s=stop.grace_s, now=stop.now)

    def _note_guard_reason(self, view: GangView) -> None:
        """A guard that ended its ranks by itself says why; the gang's end has the same reason."""
        if self.stop is None:
            self.stop = decide(
                GangView(ranks=tuple(r for r in view.ranks if r.stopped or r.ok), guard_ends=view.guard_ends),
                self.limits,
            )

    def _finish(self, outcome: Outcome) -> None:
        self.bundle.room.release()
        self.bundle.update_run(ended=time.time(), **outcome.to_json())
        self.journal.emit("ended", status=str(outcome.status), message=outcome.verdict.message)
