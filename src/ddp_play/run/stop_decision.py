"""Stop decision while the gang runs, from a view of it and the time limits. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_play.bundle.outcome import RankOutcome


# A rank that is asked for its stacks gets at least this long to print them.
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
    start_timeout_s: float = 0.0  # the least quiet time that ends a gang which has never said anything
    patience_s: float = 0.0  # instead of settle_s while all that failed blame a peer; 0: the same


@dataclass(frozen=True, slots=True)
class GangView:
    """The gang as the controller sees it at one moment; ages in seconds."""

    ranks: tuple[RankOutcome, ...]
    silent_s: dict[str, float] = field(default_factory=dict)
    failed_for_s: float = 0.0
    only_collateral: bool = False
    idle_s: float = 0.0
    any_output: bool = True  # has any rank ever printed or reported anything?
    guard_ends: dict[str, str] = field(default_factory=dict)

    @property
    def over(self) -> bool:
        """Has every rank ended or been lost?"""
        return all(row.state in ("exited", "lost") for row in self.ranks)


@dataclass(frozen=True, slots=True)
class Stop:
    """End the gang: why, how gently."""

    kind: str  # failure | host_lost | idle | stopped | max_duration | lease | wrong_fabric
    reason: str
    signal: str = "SIGTERM"
    grace_s: float = 2.0
    now: bool = False


def decide(view: GangView, limits: Limits) -> Stop | None:
    """Must the gang end? The first reason that holds; None while all is well."""
    failed = [row for row in view.ranks if row.failed]
    settle_s = max(limits.settle_s, limits.patience_s) if view.only_collateral else limits.settle_s
    if failed and view.failed_for_s >= settle_s:
        first = failed[0]
        reason = f"rank {first.rank} on {first.host} failed: {first.words()}"
        return Stop("failure", reason, grace_s=limits.failure_grace_s)
    lost = [row for row in view.ranks if row.state == "lost"]
    if lost:
        return Stop("host_lost", f"host {lost[0].host} was lost", grace_s=limits.failure_grace_s)
    for host, why in view.guard_ends.items():
        if why in GUARD_STOPS:
            grace = limits.grace_s if why != "a rank on this host failed" else limits.failure_grace_s
            return Stop(GUARD_STOPS[why], f"{why} (said by {host})", limits.signal, grace)
    # Imports and compilers are silent: until a rank has been heard, its start is what is timed.
    limit_s = limits.idle_timeout_s if view.any_output else max(limits.idle_timeout_s, limits.start_timeout_s)
    if limits.idle_timeout_s and view.idle_s > limit_s:
        reason = f"no output and no progress from any rank for {view.idle_s:.0f} s (ddp_job_idle_timeout)"
        # SIGABRT: a Python rank prints the stacks of its threads and ends
        return Stop("idle", reason, "SIGABRT", max(limits.failure_grace_s, STACKS_S))
    return None


# Why a guard ended its ranks by itself -> the kind of stop that means for the gang.
GUARD_STOPS = {
    "max_duration reached": "max_duration",
    "no controller for longer than the lease": "lease",
    "the guard was asked to end": "stopped",
}
