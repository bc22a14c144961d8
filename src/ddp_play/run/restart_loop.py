"""Restart loop of a run: an attempt, the decision about a restart, fencing, the next attempt.

The reasons for these steps: docs/decisions/0002-attempts.md.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import RunStatus, error_outcome
from ddp_play.bundle.paths import write_json
from ddp_play.bundle.writer import Bundle
from ddp_play.errors import DdpPlayError, HostNotReady, HostUnfit, NameTaken, SlotsTaken
from ddp_play.run import attempt_progress, judged_outcome, requeue
from ddp_play.run.artifact_rescue import Rescue
from ddp_play.run.attempt_history import AttemptHistory
from ddp_play.run.attempt_result import NotStarted
from ddp_play.run.fencing import fence
from ddp_play.run.host_spec import rows_of_shared
from ddp_play.run.kept_output import keep_all_of
from ddp_play.run.left_files import LeftFiles
from ddp_play.run.lost_host_files import LostHostFiles
from ddp_play.run.presence import Presence
from ddp_play.run.restart_assignment import Following, on_other_hosts, reasons
from ddp_play.run.restart_choice import choose, replan_input, with_engines_reason
from ddp_play.run.restart_decision import End
from ddp_play.run.run_hooks import RESTART
from ddp_play.run.stop_requests import StopRequests
from ddp_play.run.supervisor import Supervisor
from ddp_play.run.supervisor_lock import supervisor_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ddp_play.bundle.outcome import Outcome
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.attempt_result import Collected
    from ddp_play.run.restart_decision import Ended

# At the end of a run, time for hosts that were lost during it to answer.
LOST_HOSTS_S = 5.0


class RestartLoop:
    """All attempts of one run. It holds the run's lock, so that no second process supervises the same run."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.paths = assignment.paths
        self.bundle = Bundle(assignment.paths)
        self.journal = Journal(assignment.paths.events)
        self.stop_requests = StopRequests(assignment.paths)
        self.history = AttemptHistory(self.bundle)
        self._refused: dict[str, str] = {}  # hosts that refused a restart -> their message
        self._lost_host_files = LostHostFiles(self.bundle)
        self._left_files = LeftFiles.of(assignment.paths.run_id, assignment.routes)
        self._presence = Presence()

    def run(self) -> Outcome:
        """Run attempts until the run ends. Returns its outcome."""
        return self._run_locked(Supervisor.run)

    def take_over(self) -> Outcome:
        """Continue a run whose supervisor died, from the state that its hosts report. Returns its outcome."""
        return self._run_locked(Supervisor.take_over)

    def _run_locked(self, begin: Callable[[Supervisor], Ended | NotStarted]) -> Outcome:
        with supervisor_lock(self.paths), self.stop_requests.handle_signals(), contextlib.closing(self._presence):
            while True:
                try:
                    outcome = self._run_attempt(begin)
                except (OSError, ValueError, KeyError) as error:  # ours: the state of the hosts is unknown
                    self._list_shared_files(error)
                    raise
                if outcome is not None:
                    if not requeue.is_left(self.paths):
                        self._conclude_lost_hosts(outcome.left)
                    return outcome
                begin = Supervisor.run

    def _run_attempt(self, begin: Callable[[Supervisor], Ended | NotStarted]) -> Outcome | None:
        """Run one attempt. Returns the outcome of the run if this was the last one."""
        supervisor = Supervisor(self.assignment, self.stop_requests, self._presence)
        judged_before = judged_outcome.stored(self.paths, self.assignment.attempt) is not None
        ended = begin(supervisor)
        if isinstance(ended, NotStarted):
            if (outcome := self._leave_before_start(ended)) is None:
                self._set_assignment(self._retry(ended))
            return outcome
        if ended.disk_full:
            return supervisor.leave_on_hosts(ended.outcome)
        ended = with_engines_reason(ended, self.paths, self.stop_requests)
        step = self._decide(ended)
        if isinstance(step, Following) and not judged_before:
            step = self._end_without_progress(supervisor, ended.outcome) or step
        self._record(ended.outcome, step)
        if isinstance(step, End) and step.verdict is not None:
            outcome = dataclasses.replace(ended.outcome, verdict=step.verdict)
            ended = dataclasses.replace(ended, outcome=outcome)
        judged_outcome.store(self.paths, self.assignment.attempt, ended.outcome)
        collected = supervisor.collect_and_clean(ended, restart_follows=isinstance(step, Following))
        self._lost_host_files.note_uncollected(self.assignment.attempt, collected.uncollected)
        self._lost_host_files.note_incomplete(self.assignment.attempt, collected.incomplete)
        if isinstance(step, End) or collected.disk_full:
            return collected.outcome
        self._continue_with(collected, step)
        return collected.outcome if step.later else None

    def _leave_before_start(self, tried: NotStarted) -> Outcome | None:
        """Leave an attempt whose hosts the engine takes before any rank was started. None if it does not."""
        order = self.stop_requests.stop()
        if order is None or not order.requeue or tried.signalled or not requeue.is_possible(self.paths):
            return None
        self.stop_requests.forget_requeue()
        requeue.leave(self.bundle, order.reason, attempt=self.assignment.attempt)
        return error_outcome(tried.error)

    def _continue_with(self, collected: Collected, following: Following) -> None:
        """Fence the ended attempt, move its files to attempts/N and set the next assignment, or leave it for later."""
        try:
            self._fence_ended_attempt(collected, following)
        except DdpPlayError:  # stop request, or a host whose ranks may still be alive
            outcome, kept = collected.outcome, collected.kept
            left = {host: "; ".join(rows) for host, rows in outcome.left.items() if host not in kept}
            self._lost_host_files.note_uncleaned(self.assignment.attempt, left)
            self._lost_host_files.note_kept(self.assignment.attempt, kept)
            self._rescue_files(unsafe=tuple(sorted(outcome.left)), missing=outcome.missing)
            raise
        self._lost_host_files.note_kept(self.assignment.attempt, collected.kept)
        judged_outcome.remove(self.paths)
        self.bundle.archive(self.assignment.attempt, collected.outcome.to_json())
        if following.later:
            self.stop_requests.forget_requeue()  # it may have come since the decision
            requeue.leave(self.bundle, following.reason, attempt=self.assignment.attempt)
        else:
            self._set_assignment(following.assignment)

    def _retry(self, tried: NotStarted) -> Assignment:
        """The assignment of another try after one that did not start: on other hosts, or later if slots were taken.

        If there can be none, collects or lists the files of earlier attempts and raises the error.
        """
        self._note_kept_by_abandon(tried.kept)
        if tried.signalled:  # ranks may have written files on hosts that do not answer
            self._lost_host_files.note_uncollected(self.assignment.attempt, tried.unfenced)
            write_json(self.paths.attempt(self.assignment.attempt).plan, self.assignment.plan.to_json())
        try:
            following = self._retry_on_other_hosts(tried) or self._retry_in_queue(tried)
            if following is None:
                raise tried.error
            uncleaned = fence(
                self.assignment,
                tried.unfenced,
                self.stop_requests,
                self.journal,
                keeps=keep_all_of(self.assignment.plan, tried.unfenced) if tried.signalled else {},
                on_kept=partial(self._lost_host_files.on_kept, self.assignment.attempt),
                presence=self._presence,
            )
        except DdpPlayError:
            self._note_uncleaned(tried.unfenced)
            if self.assignment.continues or tried.signalled or self.history.rows:
                self._rescue_files(unsafe=tuple(sorted(tried.unfenced)))
            raise
        self._note_uncleaned(uncleaned | (set(tried.unconfirmed) - tried.unfenced.keys()))
        self._lost_host_files.note_cleaned(self.assignment.attempt, set(tried.unfenced) - uncleaned)
        return following

    def _note_kept_by_abandon(self, kept: dict[str, tuple[str, ...]]) -> None:
        """Remember directories of ranks that were ended right after their start, so that `attach` collects them."""
        rows = {host: [*map(self._left_files.uncollected, paths)] for host, paths in kept.items()}
        self._lost_host_files.note_kept(self.assignment.attempt, rows)
        self._lost_host_files.note_uncollected(self.assignment.attempt, kept)

    def _note_uncleaned(self, hosts: Iterable[str]) -> None:
        """Remember hosts that did not confirm the cleanup of an attempt that did not start."""
        why = self._left_files.uncleaned("the host did not confirm the cleanup", is_collected=False)
        self._lost_host_files.note_uncleaned(self.assignment.attempt, dict.fromkeys(hosts, why))

    def _retry_in_queue(self, tried: NotStarted) -> Assignment | None:
        """Wait again for slots that another run took first, in the same place of the queue.

        The try gets a new attempt number if hosts know the old one.
        """
        waiting = tried.waiting
        if self.assignment.continues or waiting is None or not isinstance(tried.error, SlotsTaken):
            return None
        if time.monotonic() >= waiting.until:
            return None
        return dataclasses.replace(self.assignment, attempt=self.assignment.attempt + tried.prepared, waiting=waiting)

    def _rescue_files(self, *, unsafe: tuple[str, ...], missing: tuple[dict[str, Any], ...] = ()) -> None:
        """When no attempt follows: collect the files that earlier ones left on hosts, or list them in run.json."""
        rescue = Rescue(self.assignment, self.bundle, self.stop_requests, self.journal)
        rescue.run(unsafe=unsafe)
        self.bundle.update_run(missing=[*missing, *rescue.missing])
        self._conclude_lost_hosts(rescue.left)
        self.bundle.update_run(left_behind=rescue.left)

    def _list_shared_files(self, error: Exception) -> None:
        """List the directory that earlier attempts share in run.json, so that users find it after an internal error."""
        why = f"not collected because of an error on the controller: {error!r}"
        left = rows_of_shared(self.assignment.plan, self.assignment.run_key, why)
        if self.history.rows and left:
            with contextlib.suppress(OSError):
                self.bundle.update_run(left_behind=left)

    def _set_assignment(self, assignment: Assignment) -> None:
        self.assignment = assignment
        write_json(self.paths.plan, assignment.plan.to_json(), indent=None if assignment.plan.world_size > 64 else 2)
        hosts = [host.name for host in assignment.plan.hosts]
        self.bundle.update_run(hosts=hosts, world_size=assignment.plan.world_size, attempt=assignment.attempt)

    # -- deciding ------------------------------------------------------------------------------------
    def _decide(self, ended: Ended) -> Following | End:
        """Decide what follows this attempt. Reads the bundle and changes nothing."""
        order = self.stop_requests.stop()
        return choose(ended, self.assignment, self.history, order=order, refused=self._refused)

    def _end_without_progress(self, supervisor: Supervisor, outcome: Outcome) -> End | None:
        """End if too many attempts in a row made no progress."""
        verdict = attempt_progress.note_end(supervisor.gang, supervisor.plan, self.bundle, outcome.verdict)
        return End("no progress", verdict) if verdict is not None else None

    def _retry_on_other_hosts(self, tried: NotStarted) -> Assignment | None:
        """Another try without the hosts that refused this one or are unfit; None if the others are too few."""
        error, continues = tried.error, self.assignment.continues
        refusals = (HostNotReady, SlotsTaken, NameTaken) if continues else (HostUnfit,)
        if not error.hosts or not isinstance(error, refusals) or self.stop_requests.stop() is not None:
            return None
        gone = reasons(error)
        self._refused |= gone
        before = self.assignment
        following = on_other_hosts(gone, before, replan_input(before, self.history, self._refused), tried)
        if following is None:
            return None
        if continues:
            self.journal.emit("retired", hosts=gone)
        else:
            had = {host.name for host in before.plan.hosts}
            new = [host.name for host in following.plan.hosts if host.name not in had]
            self.journal.emit("replaced", hosts=gone, new=new)
        return following

    def _record(self, outcome: Outcome, step: Following | End) -> None:
        """Add the attempt to run.json, if the run has more than one or a restart was considered."""
        if self.history.rows or isinstance(step, Following) or step.reason:
            retired, later = (step.retired, step.later) if isinstance(step, Following) else ({}, False)
            self.history.add(self.assignment, outcome.verdict, step.reason, retired, requeued=later)
        if isinstance(step, End) and step.reason and step.verdict is None:
            self.journal.emit("warning", message=f"no restart: {step.reason}")

    # -- between two attempts ------------------------------------------------------------------------
    def _fence_ended_attempt(self, collected: Collected, following: Following) -> None:
        """Announce the restart and wait until no rank of the ended attempt can be alive on any host."""
        hosts = [] if following.later else [host.name for host in following.assignment.plan.hosts]
        before = {host.name for host in self.assignment.plan.hosts}
        self.journal.emit(
            "restart",
            attempt=following.assignment.attempt,
            reason=following.reason,
            error=following.error,
            retired=dict(following.retired),
            new=[name for name in hosts if name not in before],
            hosts=hosts,
        )
        told = {"attempt": following.assignment.attempt, "reason": following.reason, "hosts": hosts}
        self.assignment.hooks.tell(RESTART, self.paths, **told)
        if not collected.unfenced:
            return
        self.bundle.update_run(status=str(RunStatus.WAITING))
        uncleaned = fence(
            self.assignment,
            collected.unfenced,
            self.stop_requests,
            self.journal,
            keeps=collected.keeps,
            on_kept=partial(self._lost_host_files.on_kept, self.assignment.attempt),
            presence=self._presence,
        )
        reasons = {host: collected.outcome.left[host][0] for host in uncleaned}
        self._lost_host_files.note_uncleaned(self.assignment.attempt, reasons)
        self._lost_host_files.note_cleaned(self.assignment.attempt, set(collected.unfenced) - uncleaned)

    def _conclude_lost_hosts(self, left: dict[str, list[str]]) -> None:
        """Collect from hosts that were lost during the run and are back. Adds the others to `left`."""
        self.paths.source_archive.unlink(missing_ok=True)
        self._lost_host_files.conclude(
            self.assignment, left, open_s=LOST_HOSTS_S, interruption=self.stop_requests.later_stop_now()
        )
