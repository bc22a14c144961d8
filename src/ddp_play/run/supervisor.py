"""Supervisor of one attempt: prepare and start all hosts, follow, stop, collect, clean up.

The same code runs under `ddp-play run`, under ansible-playbook (from the role's action plugin) and in
`ddp-play attach` after a supervisor died.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.format_version import format_stamp
from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import Outcome, RunStatus
from ddp_play.bundle.sample_store import SampleStore
from ddp_play.bundle.writer import BeyondEndError, Bundle
from ddp_play.errors import DdpPlayError, DiskFull, Interrupted, UsageError
from ddp_play.run import judged_outcome, lost_hosts
from ddp_play.run.artifact_rescue import order_for_head
from ddp_play.run.attempt_assignment import links_of
from ddp_play.run.attempt_result import Collected, NotStarted
from ddp_play.run.collect_and_clean import clean, collect, drain, left_files, network_counters
from ddp_play.run.controller_disk_full import FullDisk, left_on_hosts
from ddp_play.run.fencing import dead_after
from ddp_play.run.flight_recorder_verdict import with_flight_recorder
from ddp_play.run.hang_capture import capture, locate
from ddp_play.run.host_data import keep_data
from ddp_play.run.host_frames import HostFrameError
from ddp_play.run.host_links import Gang
from ddp_play.run.kept_output import incomplete, is_collected, orders_to_keep
from ddp_play.run.nccl_transport import TransportWatch
from ddp_play.run.prepare_and_start import Starter
from ddp_play.run.rank_observer import Observer
from ddp_play.run.rank_states import damaged_logs, outcomes
from ddp_play.run.restart_decision import Ended
from ddp_play.run.stop_decision import GangView, Limits, Stop, decide
from ddp_play.run.stop_delivery import StopDelivery
from ddp_play.run.stop_requests import NOT_STARTED, interruption
from ddp_play.run.verdict import judge, stopped_while_collecting

if TYPE_CHECKING:
    from ddp_play.guard.protocol import Frame
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.link import Link
    from ddp_play.run.presence import Presence
    from ddp_play.run.stop_requests import StopRequests

OPEN_S = 60.0
TICK_S = 0.1
# Pieces of logs that a host may send beyond the end of what is here, before it is given up.
MAX_GAPS = 100


class Supervisor:
    """One attempt of a run. `RestartLoop` creates it and holds the run's lock."""

    def __init__(self, assignment: Assignment, stop_requests: StopRequests, presence: Presence) -> None:
        self.plan = assignment.plan
        self.assignment = assignment
        self.stop_requests, self.presence = stop_requests, presence
        self.paths = assignment.paths
        self.bundle = Bundle(assignment.paths)
        self.samples = SampleStore(self.bundle, assignment.paths, assignment.attempt)
        self.journal = Journal(assignment.paths.events)
        self.gang = Gang(
            links_of(assignment, {host.name for host in assignment.plan.hosts}),
            run_id=assignment.paths.run_id,
            token=assignment.token,
            attempt=assignment.attempt,
            on_data=self._on_data,
            on_host=self._on_host,
            offsets=lambda host: self.bundle.offsets(self.plan, host) | self.samples.offset(host),
            interruption=lambda kind: interruption(stop_requests.stop(), kind, stop_now_sent=self._stop_now_sent),
        )
        self.gang.on_pump = presence.keep
        timeouts = self.plan.timeouts
        self.limits = Limits(
            settle_s=assignment.settle_s,
            patience_s=assignment.patience_s,
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
        self.stop_delivery = StopDelivery(self.gang)
        self.stop: Stop | None = None
        self._wrong_fabric: Stop | None = None
        self._stop_now_sent = False
        self._kill_by = float("inf")
        self._captured: dict[int, dict[str, Any]] = {}  # rank -> state captured from /proc when the gang hung

    # -- one attempt ---------------------------------------------------------------------------------
    def run(self) -> Ended | NotStarted:
        """Prepare, start and follow the ranks to their end. An error before the start cleans up the hosts."""
        self._set_status(RunStatus.PREPARING)
        self.bundle.begin(self.plan)
        starter = Starter(self.assignment, self.gang, self.bundle, self.journal)
        try:
            open_ones = {} if self.assignment.continues else self.assignment.channels
            self.gang.open_all(deadline_s=OPEN_S, channels=open_ones)
            starter.claim()
            starter.wait_for_slots(self.stop_requests)
            starter.probe(starter.prepare())
            self._handle_stop_requests(before_start=True)
            starter.go()
            self.presence.leave()
        except DdpPlayError as error:
            return self._abandon(starter, error)
        return self._follow_to_end()

    def _abandon(self, starter: Starter, error: DdpPlayError) -> NotStarted:
        """Clean up what was prepared. Hosts that may have started ranks and have not confirmed it are unfenced."""
        unconfirmed = starter.abandon(error)
        unfenced = {name: dead_after(link, self.plan) for name, link in unconfirmed.items() if starter.signalled}
        state = starter.prepared, starter.signalled, unfenced, starter.waiting, starter.kept
        return NotStarted(error, *state, tuple(unconfirmed))

    def take_over(self) -> Ended | NotStarted:
        """Follow ranks that run already to their end, from the state that the hosts report. Raises NotTakenOver."""
        judged = judged_outcome.stored(self.paths, self.assignment.attempt)
        ends = {"ends_the_run": self.stop_requests.ends_the_run(), "ranks_ended": judged is not None}
        lost_hosts.open_for_take_over(self.gang, self.journal, deadline_s=OPEN_S, **ends)
        known = [link for link in self.gang.links if link.state]
        if not (known or judged):
            return NotStarted(
                UsageError(
                    f"no host knows run {self.paths.run_id}",
                    hint=f"it has ended and was cleaned up: ddp-play results {self.paths.run_id}",
                )
            )
        self.bundle.update_run(**format_stamp())  # from now on this version writes it
        if judged is None:
            self._settle(known)
        return self._follow_to_end(judged)

    def _settle(self, known: list[Link]) -> None:
        """End an attempt whose start signal did not reach all hosts, or whose files some hosts do not have any more."""
        for link in self.gang.links:
            if link.place is not None and not link.state:
                link.ranks_lost = "the host has no files of this attempt any more"
        if any(link.state.get("phase") == "prepared" for link in known):
            reason = "the controller died before all hosts had the start signal"
            self._stop_ranks(Stop("lease", reason, self.limits.signal, self.limits.grace_s))

    def _follow_to_end(self, judged: Outcome | None = None) -> Ended:
        """Follow the ranks to their end. `judged`: they have ended, and another supervisor has judged it."""
        if judged is None:
            self._set_status(RunStatus.RUNNING)
        for link in self.gang.links:
            self.gang.follow(link)
        if judged is None:
            self._watch()
        else:
            lost_hosts.end_ranks(self.gang, self.plan)
        undrained = drain(self.gang)
        if self.disk.wait_for_space(self.stop_requests):
            undrained = drain(self.gang)
        network = network_counters(self.gang, self.plan, self.paths)
        self.bundle.update_run(network=network, nccl=self.transport.conclude())
        return Ended(
            self.assignment.num_ended + 1,
            judged or self._judge(),
            unreachable=lost_hosts.gone(self.gang),
            undrained=tuple(undrained),
            disk_full=self.bundle.disk_space.full,
        )

    def collect_and_clean(self, ended: Ended, *, restart_follows: bool) -> Collected:
        """Collect the files of an ended attempt into the bundle and clean the hosts.

        `restart_follows`: another attempt follows, so directories that all attempts share are kept.
        """
        self._set_status(RunStatus.COLLECTING)
        artifacts = not (restart_follows and self.plan.source_shared)
        for_head = order_for_head(self.assignment, self.gang) if artifacts else None
        ask = partial(collect, artifacts=artifacts, for_head=for_head, told=self._note_collected)
        missing = [*ended.undrained, *ask(self.gang, self.plan, self.paths)]
        if self.bundle.disk_space.full:
            return Collected(self.leave_on_hosts(ended.outcome), disk_full=True)
        outcome = stopped_while_collecting(ended.outcome, self.stop_requests.stop())
        if not restart_follows:
            outcome = with_flight_recorder(outcome, self.gang, self.plan, self.paths)
        left, kept = clean(self.gang, self.plan, missing, self.journal, restart_follows=restart_follows)
        uncollected = tuple(link.name for link in self.gang.links if not is_collected(link))
        outcome = replace(outcome, missing=(*missing, *damaged_logs(self.gang)), left=left)
        outcome = left_files(self.gang).advised(outcome, uncollected)
        if restart_follows:
            self.presence.stay(self.gang)
        else:
            self.gang.close()
            self._finish(outcome)
        found, keeps = incomplete(self.gang.links, missing), orders_to_keep(self.gang.links, missing)
        return Collected(outcome, uncollected, kept, self._unfenced(outcome), incomplete=found, keeps=keeps)

    def leave_on_hosts(self, outcome: Outcome) -> Outcome:
        """End the run with all files on the hosts, because the controller's disk is full; `attach` can collect them."""
        self.gang.close()
        outcome = left_on_hosts(outcome, self.paths, self.gang)
        self._finish(outcome)
        return outcome

    def _note_collected(self, num_bytes: int) -> None:
        self.journal.emit("collected", bytes=num_bytes)

    def _judge(self) -> Outcome:
        ranks = outcomes(self.plan, self.gang, self.bundle)
        tails = {row.rank: self.bundle.tail(row.rank) for row in ranks}
        return judge(ranks, tails, self.stop, locate(self._captured, tails, self.paths))

    def _unfenced(self, outcome: Outcome) -> dict[str, float]:
        return {link.name: dead_after(link, self.plan) for link in self.gang.links if link.name in outcome.left}

    def _set_status(self, status: RunStatus) -> None:
        self.bundle.update_run(status=str(status), attempt=self.assignment.attempt)
        self.journal.emit("phase", phase=str(status))

    # -- while it runs -------------------------------------------------------------------------------
    def _on_host(self, link: Link, how: str) -> None:
        self.journal.emit("host", host=link.name, state=how, why=link.lost)
        if how == "back":
            self.stop_delivery.on_back(link)

    def _on_data(self, link: Link, frame: Frame) -> None:
        header = frame[0]
        if self.bundle.disk_space.full:
            return  # requested again when there is space
        try:
            keep_data(link, self.bundle, self.samples, frame)
            if header["t"] == "nccl":
                self._wrong_fabric = self.transport.on_notes(int(header["rank"])) or self._wrong_fabric
        except DiskFull as error:
            self.disk.pause(error)
        except BeyondEndError as error:
            if link.gaps >= MAX_GAPS:
                raise HostFrameError(f"{link.gaps + 1} pieces beyond the end of a file: {error}") from error
            link.gaps += self.disk.follow_again(link)

    def _watch(self) -> None:
        while True:
            self.gang.pump(TICK_S)
            self.gang.keep_alive()
            lost_hosts.give_up_on_lost_hosts(self.gang, self.journal, host_timeout_s=self.limits.host_timeout_s)
            self.disk.resume_if_space()
            view = self.observer.view()
            self.observer.report(view)
            if view.over:
                self._note_guard_reason(view)
                return
            self._handle_stop_requests()
            decision = (decide(view, self.limits) or self._wrong_fabric) if self.stop is None else None
            if decision is not None:
                if decision.kind == "idle":
                    self._captured = capture(self.gang, self.journal)
                self._stop_ranks(decision)
            if time.monotonic() > self._kill_by:
                lost_hosts.declare_stuck(self.gang, self.journal, view)
                self._kill_by = float("inf")

    def _handle_stop_requests(self, *, before_start: bool = False) -> None:
        """Stop the ranks on request: `ddp-play stop`, Ctrl-C, or a signal to this process."""
        order = self.stop_requests.stop()
        if order is None:
            return
        if before_start:
            raise Interrupted(NOT_STARTED)
        if self.stop is None or (order.now and not self._stop_now_sent):
            grace_s = 0.0 if order.now else self.limits.grace_s
            self._stop_ranks(Stop("stopped", order.reason, self.limits.signal, grace_s, now=order.now))

    def _stop_ranks(self, stop: Stop) -> None:
        """Send `stop` to all guards. The first reason is kept, but any other reason replaces a stop request."""
        self.stop = self.stop if self.stop is not None and self.stop.kind != "stopped" else stop
        self._stop_now_sent = self._stop_now_sent or stop.now
        self._kill_by = time.monotonic() + stop.grace_s + lost_hosts.STOP_SLACK_S
        self.journal.emit("stop", why=stop.kind, reason=stop.reason, grace_s=stop.grace_s, now=stop.now)
        self.bundle.update_run(status=str(RunStatus.STOPPING))
        self.stop_delivery.send(stop)

    def _note_guard_reason(self, view: GangView) -> None:
        """If guards ended the ranks by themselves, their reason is the reason for the end of the gang."""
        if self.stop is None:
            self.stop = decide(
                GangView(ranks=tuple(r for r in view.ranks if r.stopped or r.ok), guard_ends=view.guard_ends),
                self.limits,
            )

    def _finish(self, outcome: Outcome) -> None:
        self.bundle.disk_space.release()
        self.bundle.update_run(ended=time.time(), **outcome.to_json())
        self.journal.emit("ended", status=str(outcome.status), message=outcome.verdict.message)
        judged_outcome.remove(self.paths)
