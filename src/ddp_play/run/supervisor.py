"""Carrying out a plan: prepare everywhere, start together, watch, stop together, collect, clean up.

The same code runs under `ddp-play run`, under plain ansible-playbook (from the role's action plugin) and in
`ddp-play attach` after a controller died.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import Outcome, RankOutcome, RunStatus, Verdict
from ddp_play.bundle.paths import write_text
from ddp_play.bundle.writer import Bundle
from ddp_play.errors import DdpPlayError, DiskFull, Interrupted, UsageError
from ddp_play.run.assignment import links_of
from ddp_play.run.collect_and_clean import clean, collect, drain, network_counters
from ddp_play.run.gang import Gang
from ddp_play.run.host_spec import PATIENCE_S, SETTLE_S
from ddp_play.run.nccl_transport import TransportWatch
from ddp_play.run.prepare_and_start import Starter
from ddp_play.run.rank_states import outcomes
from ddp_play.run.restart_decision import Ended
from ddp_play.run.stack_dumps import Whereabouts, cut_dump, whereabouts
from ddp_play.run.stop_decision import GangView, Limits, Stop, decide
from ddp_play.run.verdict import EXIT_STOPPED, blames_a_peer, judge

if TYPE_CHECKING:
    from ddp_play.guard.protocol import Frame
    from ddp_play.run.assignment import Assignment
    from ddp_play.run.gang import Link
    from ddp_play.run.stop_requests import Orders

OPEN_S = 60.0
TICK_S = 0.1
# After a stop's grace is over the guards kill; this long later they must have said so.
STOP_SLACK_S = 15.0
CAPTURE_S = 4.0
# The ranks have ended and the disk is full: how long somebody may take to make room.
ROOM_S = 20.0
NOT_STARTED = "stopped before it started"
BEFORE_START = ("lease_port", "prepare", "listen", "probe")
AT_THE_END = ("drain", "fetch")
# A guard looks at its lease every twentieth of a second and kills again every second: this covers a busy host.
FENCE_MARGIN_S = 5.0


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
        self.transport = TransportWatch(self.plan, self.paths, self.journal)
        self.stop: Stop | None = None
        self._wrong_fabric: Stop | None = None
        self._told_now = False
        self._failed_at: float | None = None
        self._kill_by = float("inf")
        self._reported: dict[int, str] = {}
        self._seen: dict[int, dict[str, Any]] = {}  # of ranks that hung
        self._traffic: dict[str, float] = {}

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
        """Before the start: take back what was prepared; where a start signal may have arrived, wait for its end."""
        unconfirmed = starter.abandon()
        unfenced = {name: self._dead_after(link) for name, link in unconfirmed.items() if starter.signalled}
        return NotStarted(error, starter.prepared, starter.signalled, unfenced)

    def take_over(self) -> Ended | NotStarted:
        """From whatever the hosts say to the end of the ranks: the controller of this run died."""
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
        if self._wait_for_room():
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
        """Somebody stopped the collecting: that is not the success that the ranks had."""
        order = self.orders.stop()
        if order is None or not order.now or outcome.status is not RunStatus.SUCCEEDED:
            return outcome
        verdict = Verdict("stopped", f"{outcome.verdict.message}; collecting was stopped: {order.reason}", EXIT_STOPPED)
        return Outcome(RunStatus.STOPPED, verdict, outcome.ranks)

    def _wait_for_room(self) -> bool:
        """Where the disk is full: was there room in time? Then everything is asked for again."""
        if not self.bundle.room.full:
            return False
        self.journal.emit("warning", message=f"the ranks have ended; waiting {ROOM_S:.0f} s for room on the disk")
        until = time.monotonic() + ROOM_S
        while time.monotonic() < until and self.orders.stop() is None:
            self.gang.pump(0.5)
            self.gang.keep_alive()
            if self._resume_when_there_is_room():
                return True
        return False

    def leave_on_hosts(self, outcome: Outcome) -> Outcome:
        """No room here: nothing is removed there, so that `attach` can bring it home later."""
        self.gang.close()
        why = f"no space left on {self.paths.root}"
        names = [link.name for link in self.gang.links]
        verdict = Verdict(
            DiskFull.kind,
            f"{outcome.verdict.message}, but the disk of this machine is full: what the ranks left is on their hosts",
            DiskFull.exit_code,
            hint=f"free some space, then: ddp-play attach {self.paths.run_id}",
        )
        missing = tuple({"host": name, "path": "logs, results and artifacts", "why": why} for name in names)
        left = {name: [f"everything of this run: {why}"] for name in names}
        outcome = Outcome(RunStatus.FAILED, verdict, outcome.ranks, missing, left)
        self._finish(outcome)
        return outcome

    def _resume_when_there_is_room(self) -> bool:
        if not self.bundle.room.is_back():
            return False
        self.journal.emit("warning", message="there is room on the disk again: following on")
        for link in self.gang.links:
            self.gang.follow(link)
        return True

    def _judge(self) -> Outcome:
        ranks = outcomes(self.plan, self.gang, self.bundle)
        tails = {row.rank: self.bundle.tail(row.rank) for row in ranks}
        return judge(ranks, tails, self.stop, self._whereabouts(tails))

    def _whereabouts(self, tails: dict[int, str]) -> dict[int, Whereabouts]:
        """Where the ranks of a hung gang were, from their stacks and /proc; the stacks go into the bundle."""
        found = {}
        for rank, seen in self._seen.items():
            dump = cut_dump(tails.get(rank, ""))
            if dump:
                write_text(self.paths.evidence(rank, "stack"), dump)
            found[rank] = whereabouts(dump, seen)
        return found

    def _unfenced(self, outcome: Outcome) -> dict[str, float]:
        return {link.name: self._dead_after(link) for link in self.gang.links if link.name in outcome.left}

    def _dead_after(self, link: Link) -> float:
        """When the ranks of a silent host must have ended (monotonic); inf for one that says that some have not.

        A guard counts its lease from a time of its own clock that we had heard of, so that time was before we last
        heard from the host.
        """
        if not link.lost and "cleaned" in link.replies:
            return float("inf")
        return float(link.heard + self.plan.timeouts["lease"] + self.plan.timeouts["grace"] + FENCE_MARGIN_S)

    def _phase(self, status: RunStatus) -> None:
        self.bundle.update_run(status=str(status), attempt=self.given.attempt)
        self.journal.emit("phase", phase=str(status))

    # -- while it runs -------------------------------------------------------------------------------
    def _on_data(self, link: Link, frame: Frame) -> None:
        header, payload = frame
        if self.bundle.room.full:
            return  # it will be asked for again
        try:
            if header["t"] == "file":
                self.bundle.file(link.name, header, payload)
            else:
                self.bundle.data(str(header["t"]), int(header["rank"]), int(header["at"]), payload)
            if header["t"] == "nccl":
                self._wrong_fabric = self.transport.heard(int(header["rank"])) or self._wrong_fabric
        except DiskFull as error:
            self.gang.tell("pause")
            self.journal.emit("warning", message=f"{error.message}; the run goes on, its logs wait on the hosts")

    def _watch(self) -> None:
        while True:
            self.gang.pump(TICK_S)
            self.gang.keep_alive()
            self._give_up_on_lost_hosts()
            self._resume_when_there_is_room()
            view = self._view()
            self._report(view)
            if view.over:
                self._note_guard_reason(view)
                return
            self._check_orders()
            decision = (decide(view, self.limits) or self._wrong_fabric) if self.stop is None else None
            if decision is not None:
                if decision.kind == "idle":
                    self._capture()
                self._order_stop(decision)
            if time.monotonic() > self._kill_by:
                self._declare_stuck(view)

    def _capture(self) -> None:
        """What every rank is doing, before any is ended: all stay frozen until the signal that ends them."""
        self.journal.emit("evidence", message="asking every host what its ranks are doing")
        try:
            answers = self.gang.ask("capture", "captured", deadline_s=CAPTURE_S)
        except DdpPlayError as error:
            self.journal.emit("warning", message=f"no evidence from {error.message}")
            answers = {link.name: link.replies.get("captured", {}) for link in self.gang.links}
        self._seen = {int(rank): seen for row in answers.values() for rank, seen in row.get("ranks", {}).items()}

    def _notice_traffic(self) -> None:
        """Bytes that moved between ranks are progress, printed or not."""
        for link in self.gang.links:
            moved = float(link.state.get("traffic_at") or 0.0)
            if moved > self._traffic.get(link.name, 0.0):
                self._traffic[link.name] = moved
                self.bundle.last_data = time.monotonic()

    def _view(self) -> GangView:
        self._notice_traffic()
        ranks = outcomes(self.plan, self.gang, self.bundle)
        failed = [row for row in ranks if row.failed]
        if failed and self._failed_at is None:
            self._failed_at = time.monotonic()
        return GangView(
            ranks=ranks,
            silent_s={link.name: link.silent_s() for link in self.gang.links},
            failed_for_s=time.monotonic() - self._failed_at if self._failed_at is not None else 0.0,
            only_collateral=bool(failed) and all(self._blames(row) for row in failed),
            quiet_s=time.monotonic() - self.bundle.last_data,
            heard=self.bundle.heard,
            guard_ends={
                link.name: link.state.get("reason", "")
                for link in self.gang.links
                if link.state.get("phase") in ("stopping", "ended") and link.state.get("reason")
            },
        )

    def _blames(self, row: RankOutcome) -> bool:
        return blames_a_peer(row, {row.rank: self.bundle.tail(row.rank)})

    def _report(self, view: GangView) -> None:
        """An event for every change of a rank."""
        for row in view.ranks:
            if self._reported.get(row.rank) != row.state:
                self._reported[row.rank] = row.state
                how = row.words() if row.state in ("exited", "lost") else ""
                self.journal.emit(
                    "rank", rank=row.rank, host=row.host, state=row.state, ok=row.ok, stopped=row.stopped, how=how
                )

    def _check_orders(self, *, before_start: bool = False) -> None:
        """Orders of people: the mailbox that `stop` and Ctrl-C write to, and signals to this process."""
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

    def _give_up_on_lost_hosts(self) -> None:
        self.gang.notice_stalls()
        for link in self.gang.links:
            if link.lost or link.ranks_lost or _all_ended(link):
                continue
            if link.silent_s() > self.limits.host_timeout_s:
                link.lost = f"silent for {link.silent_s():.0f} s"
            elif link.guard_gone:
                link.ranks_lost = "its guard is gone: was the host rebooted, or the guard killed?"
            if why := link.lost or link.ranks_lost:
                self.journal.emit("host", host=link.name, state="lost", why=why)

    def _declare_stuck(self, view: GangView) -> None:
        for name in {row.host for row in view.ranks if row.state not in ("exited", "lost")}:
            link = self.gang.link(name)
            link.ranks_lost = "its ranks did not end when told to"
            self.journal.emit("host", host=name, state="lost", why=link.ranks_lost)
        self._kill_by = float("inf")

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


def _all_ended(link: Link) -> bool:
    rows = (link.state.get("ranks") or {}).values()
    return bool(rows) and all(row.get("state") == "exited" for row in rows)
