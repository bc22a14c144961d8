"""Hosts that are asked for their facts: those that the job uses, others only in place of them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ddp_play.planning.job import Job


def next_wave(job: Job, hosts: Sequence[str], asked: Collection[str], num_usable: int) -> list[str]:
    """The hosts to ask next, in the play's order; empty if no more are needed or left.

    `asked`: hosts that were asked. `num_usable`: those of them, without spares, that can have ranks. A job without a
    highest number of hosts uses all. A job with restarts also asks the hosts that replace lost ones: as many as it has
    restarts, at most as many as it uses, and its spares.
    """
    _, high = job.hosts
    regular = [host for host in hosts if host not in job.spares]
    if not high:
        return [] if asked else list(hosts)
    wanted = high + min(job.restarts, high)
    wave = [host for host in regular if host not in asked][: max(0, wanted - num_usable)]
    if not asked:
        wave += [host for host in hosts if host in job.spares]
    return wave


def not_asked(hosts: Sequence[str], asked: Collection[str]) -> tuple[tuple[str, str], ...]:
    """One row for the plan's list of hosts that are left out, for all hosts that were not asked."""
    rest = [host for host in hosts if host not in asked]
    if not rest:
        return ()
    name = rest[0] if len(rest) == 1 else f"{rest[0]} and {len(rest) - 1} more"
    return ((name, "not asked: ddp_job_hosts needs no more hosts"),)
