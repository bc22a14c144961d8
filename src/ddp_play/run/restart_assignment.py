"""Assignment of the attempt that follows another one, planned from the facts of the run's start. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.errors import DdpPlayError
from ddp_play.run.restart_decision import End

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.next_attempt import Fleet
    from ddp_play.run.attempt_assignment import Assignment
    from ddp_play.run.restart_decision import Restart


@dataclass(frozen=True, slots=True)
class Following:
    """Another attempt follows. `retired`: hosts that leave the run with it, and why (host -> reason)."""

    given: Assignment
    reason: str
    retired: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunSoFar:
    """What the next attempt is planned from.

    `fleet`: None where the bundle does not have it. `retired`: hosts that have left the run already. `wanted`: number
    of hosts of the first attempt.
    """

    fleet: Fleet | None
    retired: Mapping[str, str]
    wanted: int


def assign(step: Restart, given: Assignment, so_far: RunSoFar, *, num_ended: int) -> Following | End:
    """The assignment after `given`; End with the reason where there can be none."""
    fleet = so_far.fleet
    if fleet is None:
        return End("its facts.json is not in the bundle")
    if fleet.secrets - set(given.secrets):
        return End("whoever took this run over does not know its secrets")
    gone = {**so_far.retired, **step.gone}
    try:
        plan, left_out = fleet.plan(gone=gone, suspects=step.suspects, wanted=so_far.wanted)
    except DdpPlayError as error:
        return End(f"too few hosts are left: {error.message}")
    following = dataclasses.replace(given, plan=plan, attempt=given.attempt + 1, num_ended=num_ended)
    return Following(
        following, step.reason, {host: why for host, why in left_out.items() if host not in so_far.retired}
    )
