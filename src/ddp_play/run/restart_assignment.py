"""Assignment of the next attempt, planned from the host facts of the run's start. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.errors import DdpPlayError
from ddp_play.run.restart_decision import End, Restart

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.next_attempt import Fleet
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.attempt_result import NotStarted


@dataclass(frozen=True, slots=True)
class Following:
    """Decision to start another attempt. `retired`: hosts that it no longer uses (host -> reason).

    `later`: on hosts that the engine gives later. `error`: that of the rank that caused it, if the reason has one.
    """

    assignment: Assignment
    reason: str
    retired: Mapping[str, str]
    later: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class ReplanInput:
    """Input for the plan of the next attempt.

    `fleet`: facts of all hosts of the run, None if the bundle does not have them. `retired`: hosts that earlier
    attempts have retired already. `wanted`: number of hosts of the first attempt.
    """

    fleet: Fleet | None
    retired: Mapping[str, str]
    wanted: int


def assign(step: Restart, assignment: Assignment, known: ReplanInput, *, num_ended: int) -> Following | End:
    """The assignment of the attempt after `assignment`, or End with the reason if there can be none."""
    fleet = known.fleet
    if fleet is None:
        return End("its facts.json is not in the bundle")
    if fleet.secrets - set(assignment.secrets):
        return End(
            "only the process that started the run had the values of its secrets, and another one has taken over"
        )
    gone = {**known.retired, **step.gone}
    try:
        plan, left_out = fleet.plan(gone=gone, suspects=step.suspects, wanted=known.wanted)
    except DdpPlayError as error:
        return End(f"too few hosts are left: {error.message}", too_few_hosts=True)
    ran = num_ended > assignment.num_ended  # else the restart was refused, and the attempt before it is the last one
    hosts = frozenset(host.name for host in assignment.plan.hosts) if ran else assignment.last_hosts
    following = dataclasses.replace(
        assignment, plan=plan, attempt=assignment.attempt + 1, num_ended=num_ended, last_hosts=hosts
    )
    retired = {host: why for host, why in left_out.items() if host not in known.retired}
    return Following(following, step.reason, retired, error=step.error)


def on_later_hosts(reason: str, assignment: Assignment, *, num_ended: int) -> Following:
    """The attempt after `assignment`, on hosts that the engine gives later."""
    following = dataclasses.replace(assignment, attempt=assignment.attempt + 1, num_ended=num_ended)
    return Following(following, reason, {}, later=True)


def on_other_hosts(
    gone: Mapping[str, str], assignment: Assignment, known: ReplanInput, tried: NotStarted
) -> Assignment | None:
    """The same attempt without these hosts, which did not take it; None if the others are too few.

    A restart may have fewer hosts than the attempt before, as after the loss of one. A first attempt has as many as
    were planned: spare hosts that take new runs replace the others, and the run keeps its place in the queue.
    """
    if not assignment.continues:
        gone = {**gone, **_closed(assignment, known)}
    step = assign(Restart("hosts refused", gone), assignment, known, num_ended=assignment.num_ended)
    if isinstance(step, End):
        return None
    if assignment.continues:
        return step.assignment
    if len(step.assignment.plan.hosts) < len(assignment.plan.hosts):
        return None
    # Hosts know an attempt by its number only once it was prepared there.
    attempt = assignment.attempt + tried.prepared
    return dataclasses.replace(step.assignment, attempt=attempt, waiting=tried.waiting)


def _closed(assignment: Assignment, known: ReplanInput) -> dict[str, str]:
    """Hosts outside the plan that take no new runs, with the reason."""
    planned = {host.name for host in assignment.plan.hosts}
    rows = known.fleet.facts if known.fleet is not None else {}
    return {name: str(row["drained"]) for name, row in rows.items() if row.get("drained") and name not in planned}


def reasons(error: DdpPlayError) -> dict[str, str]:
    """By host that an error is about, what its own line of the message says; else the last line."""
    lines = [line.partition(": ") for line in error.message.splitlines()]
    own = {host: [why for names, _, why in lines if host in names.split(", ")] for host in error.hosts}
    return {host: found[-1] if found else error.message.splitlines()[-1] for host, found in own.items()}
