"""Restart decision after an attempt ended. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.outcome import HOST_LOST, RunStatus
from ddp_play.guard.protocol import REMOVED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.bundle.outcome import Outcome, RankOutcome, Verdict

# Exit codes of ranks that an engine's SIGTERM and SIGKILL ended.
SIGTERMED = 143
BY_SIGNAL = (SIGTERMED, 137)


@dataclass(frozen=True, slots=True)
class Policy:
    """Number of restarts allowed, and exit codes of ranks that count as failures of the infrastructure."""

    restarts: int
    exit_codes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How an attempt ended, before its files are collected.

    `ordinal`: 1 for the first attempt whose ranks were started, and so on. `unreachable`: hosts that no longer answer
    (host -> reason). `undrained`: rows for logs that could not be read to the end. `disk_full`: the controller's disk
    has no space for the files.
    """

    ordinal: int
    outcome: Outcome
    unreachable: Mapping[str, str] = field(default_factory=dict)
    undrained: tuple[dict[str, Any], ...] = ()
    disk_full: bool = False


@dataclass(frozen=True, slots=True)
class Restart:
    """Start again without the hosts of `gone`, and without `suspects` if others can replace them (host -> reason).

    `requeued`: the engine has taken all hosts and gives others later. `error`: that of the rank whose exit code is the
    reason.
    """

    reason: str
    gone: Mapping[str, str] = field(default_factory=dict)
    suspects: Mapping[str, str] = field(default_factory=dict)
    requeued: bool = False
    error: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """The run ends with this outcome. `reason`: why there is no restart, if the failure allowed one.

    `verdict`: that of the run, where it is not that of the last attempt. `too_few_hosts`: with more of them there could
    be a restart.
    """

    reason: str = ""
    verdict: Verdict | None = None
    too_few_hosts: bool = False


def next_step(ended: Ended, policy: Policy, faults: tuple[str, ...], requeue: str = "") -> Restart | End:
    """Decide whether an attempt follows. `faults`: the hosts on which earlier attempts failed, oldest first.

    `requeue`: why the engine takes all hosts and gives others later; empty if it does not.
    """
    requeued = bool(requeue) and ended_by_engine(ended.outcome)
    why = requeue if requeued else infrastructure_failure(ended.outcome, policy.exit_codes)
    if not why or not policy.restarts:
        return End()
    if ended.ordinal > policy.restarts:
        return End(f"attempt {ended.ordinal} of {policy.restarts + 1}: ddp_job_restarts is {policy.restarts}")
    if requeued:
        return Restart(why, requeued=True)
    host = ended.outcome.verdict.host
    suspects = {}
    if host and host not in ended.unreachable and (ended.outcome.verdict.kind == HOST_LOST or host in faults):
        suspects = {host: why}
    return Restart(why, dict(ended.unreachable), suspects, error=_error_of_exit_code(ended.outcome, policy.exit_codes))


def ended_by_engine(outcome: Outcome) -> bool:
    """Did the ranks end because the engine took their hosts? It may signal the ranks itself, before our stop does."""
    return outcome.status is RunStatus.STOPPED or outcome.verdict.exit_code in BY_SIGNAL


def infrastructure_failure(outcome: Outcome, exit_codes: tuple[int, ...]) -> str:
    """The failure of the infrastructure that ended the attempt, as text; empty if there was none."""
    verdict = outcome.verdict
    if outcome.status is not RunStatus.FAILED:
        return ""
    if verdict.kind == HOST_LOST:
        return f"host {verdict.host} was lost"
    if verdict.kind == "lease":
        return "the hosts had no controller for longer than the lease"
    row = _first_failed(outcome)
    return _infrastructure_failure_of_rank(row, exit_codes) if row is not None else ""


def _error_of_exit_code(outcome: Outcome, exit_codes: tuple[int, ...]) -> str:
    """The error of a rank that ended with one of these codes. That of a killed rank would be one it survived."""
    row = _first_failed(outcome)
    return outcome.verdict.error if row is not None and row.exit_code in exit_codes else ""


def _first_failed(outcome: Outcome) -> RankOutcome | None:
    verdict = outcome.verdict
    if verdict.kind != "rank_failed":
        return None
    return next((row for row in outcome.ranks if row.rank == verdict.rank), None)


def _infrastructure_failure_of_rank(row: RankOutcome, exit_codes: tuple[int, ...]) -> str:
    who = f"rank {row.rank} on {row.host}"
    if row.exit_code in exit_codes:
        return f"{who} ended with exit code {row.exit_code} (ddp_job_restart_exit_codes)"
    if REMOVED in row.detail:
        return f"the container of {who} was removed from outside"
    if row.signal == signal.SIGKILL and not row.oom and not row.stopped:
        return f"{who} was killed from outside"
    return ""
