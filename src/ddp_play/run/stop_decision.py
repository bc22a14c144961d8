"""Stop decision while the gang runs, from the rank states and the time limits. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddp_play.bundle.outcome import HOST_LOST
from ddp_play.guard.protocol import ASKED_TO_END, HOST_SHUTS_DOWN, LEASE_EXPIRED, MAX_DURATION

if TYPE_CHECKING:
    from ddp_play.bundle.outcome import RankOutcome


# Least time for a rank to print its stacks after SIGABRT.
STACKS_S = 3.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Times in seconds; 0 switches a limit off."""

    settle_s: float
    grace_s: float
    failure_grace_s: float
    host_timeout_s: float
    idle_timeout_s: float
    signal: str
    start_timeout_s: float = 0.0  # the idle timeout is at least this until a rank prints or reports something
    patience_s: float = 0.0  # replaces settle_s while all failed ranks report a lost peer; 0: same as settle_s


@dataclass(frozen=True, slots=True)
class GangView:
    """The gang as the controller knows it at one moment. `silent_s`: by host; `guard_ends`: host -> reason."""

    ranks: tuple[RankOutcome, ...]
    silent_s: dict[str, float] = field(default_factory=dict)
    failed_for_s: float = 0.0
    only_collateral: bool = False
    idle_s: float = 0.0
    any_output: bool = True  # has any rank printed or reported anything since the start?
    guard_ends: dict[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Has every rank ended or been lost?"""
        return all(row.state in ("exited", "lost") for row in self.ranks)


@dataclass(frozen=True, slots=True)
class Stop:
    """Decision to end the gang: the reason, the signal and the grace period."""

    kind: str  # failure | host_lost | idle | stopped | max_duration | lease | wrong_fabric
    reason: str
    signal: str = "SIGTERM"
    grace_s: float = 2.0
    now: bool = False


def decide(view: GangView, limits: Limits) -> Stop | None:
    """The first reason to end the gang; None if there is none."""
    failed = [row for row in view.ranks if row.failed]
    settle_s = max(limits.settle_s, limits.patience_s) if view.only_collateral else limits.settle_s
    if failed and view.failed_for_s >= settle_s:
        first = failed[0]
        reason = f"rank {first.rank} on {first.host} failed: {first.words()}"
        return Stop("failure", reason, grace_s=limits.failure_grace_s)
    lost = [row for row in view.ranks if row.state == "lost"]
    if lost:
        return Stop(HOST_LOST, f"host {lost[0].host} was lost", grace_s=limits.failure_grace_s)
    for host, why in view.guard_ends.items():
        if why in GUARD_STOPS:
            grace = limits.grace_s if why != HOST_SHUTS_DOWN else limits.failure_grace_s
            return Stop(GUARD_STOPS[why], f"{GUARD_REASONS.get(why, why)} (reported by {host})", limits.signal, grace)
    # Imports and compilers print nothing: until the first output, the start timeout applies if it is longer.
    limit_s = limits.idle_timeout_s if view.any_output else max(limits.idle_timeout_s, limits.start_timeout_s)
    if limits.idle_timeout_s and view.idle_s > limit_s:
        reason = f"no output and no progress from any rank for {view.idle_s:.0f} s (ddp_job_idle_timeout)"
        # after SIGABRT a Python rank prints the stacks of its threads and exits
        return Stop("idle", reason, "SIGABRT", max(limits.failure_grace_s, STACKS_S))
    return None


GUARD_REASONS = {MAX_DURATION: "the time limit of the job was reached: ddp_job_max_duration"}
# Reason why a guard ended its ranks -> kind of the stop of the gang.
GUARD_STOPS = {
    MAX_DURATION: "max_duration",
    LEASE_EXPIRED: "lease",
    ASKED_TO_END: "stopped",
    HOST_SHUTS_DOWN: HOST_LOST,
}
