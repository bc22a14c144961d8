"""Attempt whose controller was lost with its allocation, seen from the next allocation: ended, collected, recorded.

A new attempt begins only when no rank of this one can be alive: each of its hosts has confirmed the clean-up, or its
lease has expired since this process holds the run's lock, because from then on nobody renews it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from ddp_play.ansible.runner import Passwords
from ddp_play.bundle.journal import Journal
from ddp_play.bundle.outcome import Outcome, RunStatus, outcome_fields
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.writer import Bundle
from ddp_play.run import judged_outcome, requeue
from ddp_play.run.attempt_assignment import assignment_from_bundle
from ddp_play.run.attempt_history import AttemptHistory
from ddp_play.run.fencing import FENCE_MARGIN_S, fence
from ddp_play.run.kept_output import keep_all_of
from ddp_play.run.lost_host_files import LostHostFiles, collect_late
from ddp_play.run.presence import Presence
from ddp_play.run.restart_choice import restart_policy
from ddp_play.run.restart_decision import ended_by_engine, infrastructure_failure
from ddp_play.run.run_hooks import END, RESTART
from ddp_play.run.stop_requests import StopRequests
from ddp_play.run.supervisor_lock import supervisor_lock

if TYPE_CHECKING:
    from ddp_play.bundle.outcome import Verdict
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.restart_decision import Policy

# A step to a node that is in the allocation starts in less than a second.
OPEN_S = 15.0


def conclude(paths: RunPaths, cause: Verdict) -> bool:
    """End the attempt that has no controller any more. `cause`: why, as far as the engine says.

    True if the run goes on with its next attempt, False if it has ended. HostNotReady if ranks may still run;
    Interrupted after a stop request.
    """
    with supervisor_lock(paths):
        known = read_json(paths.run)
        if not known.get("directories"):  # no host knows of this start, which may have written no plan yet
            StopRequests(paths).forget_requeue()
            requeue.leave(Bundle(paths), cause.message, attempt=int(known.get("attempt") or 0))
            return True
        return _Interrupted(assignment_from_bundle(paths, Passwords()), cause).conclude()


class _Interrupted:
    def __init__(self, assignment: Assignment, cause: Verdict) -> None:
        self.assignment, self.paths = assignment, assignment.paths
        self.bundle = Bundle(self.paths)
        self.hosts = {host.name for host in assignment.plan.hosts}
        self.history = AttemptHistory(self.bundle)
        self.judged = judged_outcome.stored(self.paths, assignment.attempt)
        self.outcome = self.judged or Outcome(RunStatus.FAILED, cause)

    def conclude(self) -> bool:
        policy, ran = restart_policy(self.paths), self._ran()
        ordinal = self.assignment.num_ended + ran
        if self._decided(policy) or ordinal > policy.restarts:
            self._end("" if self._decided(policy) else f"ddp_job_restarts is {policy.restarts}")
            return False
        StopRequests(self.paths).forget_requeue()
        if ran:
            self._record()
        self._collect_and_fence()
        requeue.leave(self.bundle, self.outcome.verdict.message, attempt=self.assignment.attempt)
        return True

    def _ran(self) -> bool:
        """Were its ranks started? One that was still being prepared is no attempt, as in the restart loop."""
        earlier = self.history.before(self.assignment.attempt)
        started = float(read_json(self.paths.run).get("started") or 0)
        return len(earlier) < len(self.history.rows) or started > (earlier[-1]["ended"] if earlier else 0)

    def _decided(self, policy: Policy) -> bool:
        """Did the ranks end before the controller was lost, and not for a reason that starts them again?"""
        found = self.judged
        return found is not None and not (ended_by_engine(found) or infrastructure_failure(found, policy.exit_codes))

    def _record(self) -> None:
        """Move the attempt's files to attempts/N and add its row; once, if this process is lost too."""
        attempt, verdict = self.assignment.attempt, self.outcome.verdict
        self.history.add(self.assignment, verdict, verdict.message, {}, requeued=True)
        if not self.paths.attempt(attempt).outcome.exists():
            self.bundle.archive(attempt, self.outcome.to_json())
        judged_outcome.remove(self.paths)
        Journal(self.paths.events).emit(
            "restart", attempt=attempt + 1, reason=verdict.message, retired={}, new=[], hosts=[]
        )
        told = {"attempt": attempt + 1, "reason": verdict.message, "hosts": []}
        self.assignment.hooks.tell(RESTART, self.paths, **told)

    def _collect_and_fence(self) -> None:
        attempt = self.assignment.attempt
        LostHostFiles(self.bundle).note_uncollected(attempt, self.hosts)
        found = collect_late(self.assignment, self.hosts, self.bundle, newest=False, open_s=OPEN_S)
        confirmed, timeouts = {*found.gone, *found.collected} - set(found.unconfirmed), self.assignment.plan.timeouts
        # a host that was asked here may have taken that for the controller, which renews its lease
        moment = time.monotonic() + timeouts["lease"] + timeouts["grace"] + FENCE_MARGIN_S
        unfenced = dict.fromkeys(self.hosts - confirmed, moment)
        fence(
            self.assignment,
            unfenced,
            StopRequests(self.paths),
            Journal(self.paths.events),
            keeps=keep_all_of(self.assignment.plan, found.away) | found.keeps,
            on_kept=partial(LostHostFiles(self.bundle).on_kept, attempt),
            presence=Presence(),
        )

    def _end(self, why: str) -> None:
        """End the run with this attempt: nothing starts again."""
        LostHostFiles(self.bundle).note_uncollected(self.assignment.attempt, self.hosts)
        found = collect_late(self.assignment, self.hosts, self.bundle, newest=True, open_s=OPEN_S)
        if self.assignment.plan.head not in found.collected:  # it would have removed what attempts share
            requeue.note_left_on_shared(self.paths)
        self.paths.source_archive.unlink(missing_ok=True)
        known = read_json(self.paths.run)
        fields = outcome_fields(self.outcome, known)
        self.bundle.disk_space.release()
        write_json(self.paths.run, {**known, **fields, "ended": time.time(), "finished": True})
        journal = Journal(self.paths.events)
        if why:
            journal.emit("warning", message=f"no restart: {why}")
        journal.emit("ended", status=str(self.outcome.status), message=self.outcome.verdict.message)
        judged_outcome.remove(self.paths)
        self.assignment.hooks.tell(END, self.paths)
