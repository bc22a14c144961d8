"""Restart decision after an attempt ended. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.outcome import RunStatus

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.bundle.outcome import Outcome, RankOutcome

REMOVED = "removed from outside"


@dataclass(frozen=True, slots=True)
class Policy:
    """How often, and which exit codes count as failures of the infrastructure."""

    restarts: int
    exit_codes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended, before anything of it is collected.

    `ordinal`: 1 for the first attempt that ran, whatever its number. `unreachable`: hosts that no longer answer, and
    why we think so. `undrained`: the ends of logs that could not be read. `disk_full`: no room here
    to collect anything.
    """

    ordinal: int
    outcome: Outcome
    unreachable: Mapping[str, str] = field(default_factory=dict)
    undrained: tuple[dict[str, Any], ...] = ()
    disk_full: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """Start again: without `gone`, and without `suspects` where others can take their place. host -> reason."""

    reason: str
    gone: Mapping[str, str] = field(default_factory=dict)
    suspects: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class End:
    """The outcome stands. `reason` tells why no attempt follows a failure that could have been followed by one."""

    reason: str = ""


def next_step(ended: Ended, policy: Policy, faults: tuple[str, ...]) -> Restart | End:
    """`faults`: the hosts that earlier attempts failed on, oldest first."""
    why = infrastructure_failure(ended.outcome, policy.exit_codes)
    if not why or not policy.restarts:
        return End()
    if ended.ordinal > policy.restarts:
        return End(f"attempt {ended.ordinal} of {policy.restarts + 1}: ddp_job_restarts is {policy.restarts}")
    host = ended.outcome.verdict.host
    suspects = {}
    if host and host not in ended.unreachable and (ended.outcome.verdict.kind == "host_lost" or host in faults):
        suspects = {host: why}
    return Restart(why, dict(ended.unreachable), suspects)


def infrastructure_failure(outcome: Outcome, exit_codes: tuple[int, ...]) -> str:
    """What broke that the job itself did not break, in words; empty when nothing did."""
    verdict = outcome.verdict
    if outcome.status is not RunStatus.FAILED:
        return ""
    if verdict.kind == "host_lost":
        return f"host {verdict.host} was lost"
    if verdict.kind == "lease":
        return "the hosts had no controller for longer than the lease"
    if verdict.kind != "rank_failed":
        return ""
    row = next((row for row in outcome.ranks if row.rank == verdict.rank), None)
    return _infrastructure_failure_of_rank(row, exit_codes) if row is not None else ""


def _infrastructure_failure_of_rank(row: RankOutcome, exit_codes: tuple[int, ...]) -> str:
    who = f"rank {row.rank} on {row.host}"
    if row.exit_code in exit_codes:
        return f"{who} ended with exit code {row.exit_code} (ddp_job_restart_exit_codes)"
    if REMOVED in row.detail:
        return f"the container of {who} was removed from outside"
    if row.signal == signal.SIGKILL and not row.oom and not row.stopped:
        return f"{who} was killed from outside"
    return ""
