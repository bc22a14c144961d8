"""Which of the play's hosts a job uses: enough of them, spares only in place of others. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady, UsageError

if TYPE_CHECKING:
    from ddp_play.hosts import HostFacts, Problem
    from ddp_play.job import Job


def choose_hosts(
    job: Job, facts: tuple[HostFacts, ...], problems: tuple[Problem, ...], wanted: int
) -> tuple[tuple[HostFacts, ...], tuple[tuple[str, str], ...]]:
    """The hosts to use, in inventory order with spares last, and those left out with the reason.

    `wanted`: how many an earlier attempt had; 0 for a first one.
    """
    low, high = job.hosts
    regular = [host for host in facts if host.name not in job.spares]
    spares = [host for host in facts if host.name in job.spares]
    total = len(regular) + sum(row.host not in job.spares for row in problems)
    if not total:
        raise UsageError("the play has no hosts", hint="does the inventory have them in the play's group? --limit?")
    needed = low or total
    if problems and len(facts) < needed:
        raise _too_few(problems, len(facts), needed)
    if len(facts) < needed:
        raise UsageError(f"ddp_job_hosts asks for {needed} hosts, the play has {total}")
    used = regular[: high or None]
    used += spares[: max(0, max(needed, wanted) - len(used))]
    chosen = {host.name for host in used}
    left_out = [(row.host, row.message) for row in problems]
    left_out += [
        (host.name, "stands by as a spare" if host.name in job.spares else "more hosts than ddp_job_hosts asks for")
        for host in facts
        if host.name not in chosen
    ]
    return tuple(used), tuple(left_out)


def _too_few(problems: tuple[Problem, ...], num_usable: int, needed: int) -> HostNotReady:
    lines = [f"{row.host}: {row.message}" + (f"\n  -> {row.hint}" if row.hint else "") for row in problems]
    return HostNotReady(
        "\n".join(lines),
        hint=f"{num_usable} of {num_usable + len(problems)} hosts answer and ddp_job_hosts asks for {needed}; "
        "leave the others out with --limit, set ddp_job_hosts to a range such as 1.., or add hosts to the group spares",
    )
