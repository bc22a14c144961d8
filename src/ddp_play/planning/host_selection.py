"""Selection of hosts for a job (spares only in place of others), and the slot leases on them. Pure."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady, UsageError
from ddp_play.planning.host_facts import Problem
from ddp_play.planning.refused_hosts import Refused, joined

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.job import Job

TOO_MANY = "more hosts than ddp_job_hosts allows"
FULL_LEVEL, BURN_IN_LEVEL = "full", "burn-in"  # of `ddp-play check`
RELEASE_BY_HAND = "ansible HOSTS -i INVENTORY -b -m ddp.play.host_quarantine -a state=released"


def choose_hosts(
    job: Job, facts: tuple[HostFacts, ...], problems: tuple[Problem, ...], wanted: int
) -> tuple[tuple[HostFacts, ...], tuple[tuple[str, str], ...]]:
    """The hosts to use, in inventory order with spares last, and those left out with the reason.

    Hosts in quarantine are left out; if the others are too few, the run is refused. Its restarts may use them then.
    Hosts that take no new runs are used only if the others are too few: the run is refused there, or waits for them.
    `wanted`: number of hosts of an earlier attempt; 0 for the first attempt.
    """
    low, high = job.hosts
    num_regular = sum(host.name not in job.spares for host in facts)
    total = num_regular + sum(row.host not in job.spares for row in problems)
    if not total:
        raise UsageError("the play has no hosts", hint="check the group of the play in the inventory, and --limit")
    needed = low or total
    if problems and len(facts) < needed:
        raise _too_few(problems, len(facts), needed)
    if len(facts) < needed:
        raise UsageError(
            f"ddp_job_hosts requires {needed} hosts, the play has {total}",
            hint=f"set ddp_job_hosts to {total} or fewer, or give the play more hosts (inventory, --limit)",
        )
    fit = _fit(facts, problems, needed, first=not wanted)
    regular = [host for host in fit if host.name not in job.spares]
    spares = [host for host in fit if host.name in job.spares]
    if sum(not host.drained for host in fit) >= needed:
        regular, spares = ([host for host in hosts if not host.drained] for hosts in (regular, spares))
    used = regular[: high or None]
    used += spares[: max(0, max(needed, wanted) - len(used))]
    chosen = {host.name for host in used}
    left_out = [(row.host, row.message) for row in problems]
    left_out += [
        (host.name, host.drained or ("unused spare" if host.name in job.spares else TOO_MANY))
        for host in facts
        if host.name not in chosen
    ]
    return tuple(used), tuple(left_out)


def _fit(
    facts: tuple[HostFacts, ...], problems: tuple[Problem, ...], needed: int, *, first: bool
) -> tuple[HostFacts, ...]:
    """The hosts that are not in quarantine. Too few: HostNotReady for the first attempt of a run, all for a restart."""
    fit = tuple(host for host in facts if not host.quarantine)
    if len(fit) >= needed:
        return fit
    if first:
        out = (Problem(host.name, "other", host.quarantine.why, release(host)) for host in facts if host.quarantine)
        raise _too_few((*problems, *out), len(fit), needed)
    return facts


def release(host: HostFacts) -> str:
    """What ends the quarantine of a host. The list of root, which counts for everybody, is changed by root."""
    if host.quarantine is not None and not host.quarantine.level:
        return _by_hand(host) if host.quarantine.own else RELEASE_BY_HAND
    own = host.quarantine is not None and host.quarantine.own
    return release_command(host.quarantine.level if host.quarantine else "", become=host.user.uid != 0 and not own)


def _by_hand(host: HostFacts) -> str:
    """What removes a mark of the user's own list, which is in the state directory: root's list is another one."""
    options = shlex.quote(f"state=released directory={shlex.quote(host.state_dir)}")
    return f"ansible HOSTS -i INVENTORY -m ddp.play.host_quarantine -a {options}"


def release_command(level: str, *, become: bool) -> str:
    """What ends a quarantine of a check of this level; `become`: it is root's, and the login is not."""
    which = f"--level {level} " if level in (FULL_LEVEL, BURN_IN_LEVEL) else ""
    how = which + "--release" + (" -b" if become else "")
    return f"mend it, then: ddp-play check -i INVENTORY {how}"


def _too_few(problems: tuple[Problem, ...], num_usable: int, needed: int) -> HostNotReady:
    message, remedy = joined(Refused(row.host, row.message, row.hint) for row in problems)
    without = (
        f"{num_usable} of {num_usable + len(problems)} hosts are usable and ddp_job_hosts requires {needed}; "
        "leave the others out with --limit, set ddp_job_hosts to a range such as 1.., or add hosts to the group spares"
        "; on Slurm, where the nodes are chosen: --slurm exclude=NAMES, or --slurm spares=1"
    )
    hint = "\n".join(filter(None, [remedy, without if num_usable else ""]))
    return HostNotReady(message, hint=hint, hosts=tuple(row.host for row in problems))


def slot_names(job: Job, hosts: tuple[HostFacts, ...], counts: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Slot leases by host; each rank takes one of them. `counts`: ranks by host.

    Each GPU has its own lease, because LOCAL_RANK determines the GPU of a rank; slots without GPU are
    interchangeable. Inventory hosts that are the same machine share its slots.
    """
    found: dict[str, tuple[str, ...]] = {}
    size: dict[str, int] = {}
    for host in hosts:
        if job.gpus == "auto" and host.gpus:
            found[host.name] = tuple(f"gpu-{gpu.uuid}" for gpu in host.gpus[: counts[host.name]])
        else:
            size[host.machine] = size.get(host.machine, 0) + max(1, host.slots or 1)
    for host in hosts:
        if host.name not in found:
            found[host.name] = tuple(f"slot-{number}" for number in range(size[host.machine]))
    return found
