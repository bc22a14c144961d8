"""What follows an ended attempt: the restart decision and the next assignment, from the bundle. Changes nothing."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import read_json
from ddp_play.bundle.run_locks import is_locked
from ddp_play.planning.job import job_from_json
from ddp_play.planning.next_attempt import Fleet
from ddp_play.run import requeue
from ddp_play.run.restart_assignment import Following, ReplanInput, assign, on_later_hosts
from ddp_play.run.restart_decision import SIGTERMED, End, Policy, ended_by_engine, next_step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.bundle.outcome import Outcome
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.attempt_history import AttemptHistory
    from ddp_play.run.restart_decision import Ended
    from ddp_play.run.stop_requests import StopRequest, StopRequests

# Slurm's daemon writes its reason within this time of its signal, also on a loaded machine.
REASON_S = 10.0
TICK_S = 0.05


def restart_policy(paths: RunPaths) -> Policy:
    """How often, and after which exit codes, the run's job starts again."""
    job = read_json(paths.job)
    return Policy(int(job.get("restarts", 0)), tuple(job.get("restart_exit_codes") or ()))


def with_engines_reason(ended: Ended, paths: RunPaths, requests: StopRequests) -> Ended:
    """The ended attempt with the engine's reason, if the engine ended its ranks: guards only know that they had to.

    The engine sends SIGTERM to the ranks and the controller in the allocation at once; its reason comes a moment later.
    After a failure with other ranks that ran on until they were stopped, and after SIGKILL, which would have ended the
    guards too, it is there by then, or there is none.
    """
    outcome = ended.outcome
    if not _has_controller(paths) or not ended_by_engine(outcome):
        return ended
    until = time.monotonic() + (REASON_S if _may_be_engines_sigterm(outcome) else 0)
    while (order := requests.stop()) is None and is_locked(paths.engine_lock) and time.monotonic() < until:
        time.sleep(TICK_S)
    if order is None or order.reason == outcome.verdict.message:
        return ended
    verdict = dataclasses.replace(outcome.verdict, message=order.reason)
    return dataclasses.replace(ended, outcome=dataclasses.replace(outcome, verdict=verdict))


def _may_be_engines_sigterm(outcome: Outcome) -> bool:
    if outcome.status is not RunStatus.FAILED:
        return True
    return outcome.verdict.exit_code == SIGTERMED and not any(row.stopped for row in outcome.ranks)


def _has_controller(paths: RunPaths) -> bool:
    return bool(read_json(paths.allocation).get("has_controller"))


def choose(
    ended: Ended,
    assignment: Assignment,
    history: AttemptHistory,
    *,
    order: StopRequest | None,
    refused: Mapping[str, str],
) -> Following | End:
    """What follows this attempt. `order`: the stop request. `refused`: hosts that refused a restart, with reasons."""
    paths = assignment.paths
    if _has_controller(paths) and not is_locked(paths.engine_lock):
        return End("the controller in the allocation was lost, and the allocation ends with it")
    why = order.reason if order is not None and order.requeue and requeue.is_possible(paths) else ""
    faults = tuple(row["fault"] for row in history.before(assignment.attempt) if row.get("fault"))
    step = next_step(ended, restart_policy(paths), faults, why)
    if isinstance(step, End):
        return step
    if step.requeued:
        return on_later_hosts(step.reason, assignment, num_ended=ended.ordinal)
    known = replan_input(assignment, history, refused)
    following = assign(step, assignment, known, num_ended=ended.ordinal)
    if isinstance(following, End) and following.too_few_hosts and requeue.is_possible(paths):
        why = f"{step.reason}, and {following.reason}"
        return on_later_hosts(why, assignment, num_ended=ended.ordinal)
    return following


def replan_input(assignment: Assignment, history: AttemptHistory, refused: Mapping[str, str]) -> ReplanInput:
    """Facts, retired hosts and first number of hosts, from the bundle and from hosts that refused a restart."""
    data = read_json(assignment.paths.fleet)
    fleet = Fleet.from_json(data, job_from_json(read_json(assignment.paths.job))) if data else None
    current = [host.name for host in assignment.plan.hosts]
    first = history.rows[0]["hosts"] if history.rows else current
    return ReplanInput(fleet, {**history.retired, **refused}, len(first))
