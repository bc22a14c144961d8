"""Levels of `ddp-play check`: which checks belong to each, and all findings about a fleet. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.checks import (
    burn_in_findings,
    dcgm_findings,
    direction_checks,
    gpu_checks,
    identity_checks,
    limit_checks,
    machine_checks,
    network_checks,
    pair_findings,
    rdma_counters,
    shared_checks,
    torch_findings,
)
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import BURN_IN, FULL, QUICK, guarded
from ddp_play.checks.host_findings import OPEN, merged, with_names
from ddp_play.planning.host_selection import release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ddp_play.checks.fleet import Fleet
    from ddp_play.planning.remedy_text import Asked

    CheckGroup = Callable[[Fleet], Iterable[Finding]]


def reached(fleet: Fleet) -> Iterable[Finding]:
    """Whether each host could be asked, and whether it takes runs."""
    for host in fleet.hosts:
        if host.facts is None:
            why = "nothing else is known of it"
            yield Finding("host reached", Status.FAIL, host.problem, why, host.hint, (host.name,), unreachable=True)
        elif host.facts.drained:
            yield Finding(
                "takes runs", Status.WARN, host.facts.drained, "runs leave it out",
                release(host.facts) if host.facts.quarantine else OPEN, (host.name,),
            )  # fmt: skip
        else:
            yield Finding("host reached", Status.OK, f"as {host.facts.user.login_name}", where=(host.name,))


# In the order in which a level shows them.
QUICK_CHECKS: tuple[CheckGroup, ...] = (
    reached,
    identity_checks.identity,
    identity_checks.naming,
    identity_checks.clocks,
    network_checks.nics,
    direction_checks.ports,
    direction_checks.packets,
    shared_checks.shared_directory,
    shared_checks.own_files,
    limit_checks.disks,
    limit_checks.limits,
    machine_checks.machine,
    machine_checks.gpus,
    gpu_checks.gpu_states,
    machine_checks.software,
)
FULL_CHECKS: tuple[CheckGroup, ...] = (
    *QUICK_CHECKS,
    pair_findings.network_matrix,
    rdma_counters.counters_of_rdma,
    torch_findings.load,
    torch_findings.collectives,
    dcgm_findings.diagnostic,
)
LEVELS: dict[str, tuple[CheckGroup, ...]] = {
    QUICK: QUICK_CHECKS,
    FULL: FULL_CHECKS,
    BURN_IN: (*FULL_CHECKS, burn_in_findings.rounds, burn_in_findings.over_time, burn_in_findings.same_bits),
}


def judge(fleet: Fleet, level: str, asked: Asked) -> tuple[Finding, ...]:
    """All findings of a level; hosts of which the same was found share one.

    `asked`: inventory and login as the user named them, for the commands that help.
    """
    return tuple(with_names(finding, asked) for finding in merged(single_findings(fleet, level)))


def single_findings(fleet: Fleet, level: str) -> tuple[Finding, ...]:
    """The findings of a level, before hosts of which the same was found share one."""
    return tuple(finding for group in LEVELS[level] for finding in guarded(group, fleet))
