"""The quick level inside a run: what its ranks need on their hosts, judged before anything is started there. Pure.

The rules are those of `ddp-play check`. What would make ranks fail or hang refuses a host. All else is a warning,
because the ranks of a plan connect by address over a network that was probed. A check without a value refuses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.checks import identity_checks, limit_checks, shared_checks
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Fleet, guarded, names, not_run
from ddp_play.checks.host_findings import merged
from ddp_play.checks.job_terms import terms_of
from ddp_play.planning.refused_hosts import Refused
from ddp_play.planning.rendezvous import needs_shared_file
from ddp_play.run.job_check import Judged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.job import Job
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.job_check import Answers

# Without these ranks cannot write, start, connect or see the files of each other.
REFUSING = (
    "open files", "processes limit", "pids limit", "locked memory", "shared memory", "ephemeral ports",
    "state directory",
)  # fmt: skip
# Where the source or a rendezvous file is there.
REFUSING_SHARED = ("shared directory", "shared by all")
WARNINGS_SHOWN = 5


def judge_start(job: Job, plan: Plan, facts: Mapping[str, HostFacts], answers: Answers) -> Judged:
    """What the readings of `run.job_check` say of the hosts of a plan."""
    found = tuple(findings(job, plan, facts, answers))
    refusing = (*REFUSING, *(REFUSING_SHARED if job.source or needs_shared_file(job) else ()))
    hard = [row for row in found if row.status is Status.FAIL and row.check in refusing]
    soft = [row for row in merged(found) if row.status is Status.FAIL and row.check not in refusing]
    soft += [row for row in merged(found) if row.status is Status.WARN]
    unread = [row for row in merged(found) if row.status is Status.UNCHECKED and row.broken]
    refused = tuple(Refused(host, _text(row), row.command) for row in hard for host in row.where)
    return Judged(refused, _shortened([*(_warning(row) for row in soft), *(_not_run(row) for row in unread)]))


def findings(job: Job, plan: Plan, facts: Mapping[str, HostFacts], answers: Answers) -> Iterator[Finding]:
    """All findings about the hosts of a plan that a run asks for."""
    hosts = tuple(_host(host.name, facts.get(host.name), answers) for host in plan.hosts)
    fleet = Fleet(hosts, terms=terms_of(job, plan))
    for host in fleet.hosts:
        if host.facts is None:
            yield not_run("host", host.name, "the bundle has no facts of it", broken=True)
    groups = [limit_checks.of_ranks, limit_checks.disks]
    if len({host.known.machine for host in fleet.reached}) > 1:  # alone, a machine may be called as it likes
        groups += [identity_checks.identity, identity_checks.own_names]
    if any(host.shared_dir for host in plan.hosts):
        groups += [shared_checks.shared_directory, shared_checks.own_files]
    for group in groups:
        yield from guarded(group, fleet)


def _host(name: str, facts: HostFacts | None, answers: Answers) -> CheckedHost:
    answer = answers.get(name, {})
    parts = {part: answer.get(part, {}) for part in ("readings", "reached", "ended")}
    return CheckedHost(name, facts, **parts)


def _text(finding: Finding) -> str:
    """What was found of a host that is refused, with the limit."""
    limit = f" (limit: {finding.limit})" if finding.limit else ""
    return _line(f"{finding.check}: {finding.value}{limit}; {finding.why}")


def _warning(finding: Finding) -> str:
    return _line(f"{names(finding.where)}: {finding.check}: {finding.value}; {finding.why}")


def _not_run(finding: Finding) -> str:
    return _line(f"{names(finding.where)}: {finding.check} could not be checked: {finding.value}")


def _line(text: str) -> str:
    """One line, whatever a host has sent: another line would seem to be about another host."""
    return " ".join(text.split())


def _shortened(texts: list[str]) -> tuple[str, ...]:
    more = len(texts) - WARNINGS_SHOWN
    if more <= 0:
        return tuple(texts)
    return (*texts[:WARNINGS_SHOWN], f"and {more} more; ddp-play check -i INVENTORY shows all of them")
