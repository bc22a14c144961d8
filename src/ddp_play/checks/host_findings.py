"""Findings about the hosts of an inventory, from their answers. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ddp_play.checks.finding import Finding, Status
from ddp_play.errors import DdpPlayError
from ddp_play.planning.fabric import choose_fabric
from ddp_play.planning.host_selection import release
from ddp_play.planning.remedy_text import complete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ddp_play.checks.host_answers import HostAnswer
    from ddp_play.planning.host_facts import HostFacts
    from ddp_play.planning.remedy_text import Asked

OK, WARN, FAIL, UNCHECKED = Status.OK, Status.WARN, Status.FAIL, Status.UNCHECKED
# Logs and the state of runs; a full disk ends a run.
LEAST_FREE_MIB, USUAL_FREE_MIB = 100, 1024
# Every connection of a rank to a peer is a descriptor, and data loaders have many.
USUAL_FILES = 4096
# As the plan warns.
CLOCK_SLACK_S = 2.0
# Filled in when it is known which hosts a finding is about.
PROVISION = "ddp-play provision -i INVENTORY --limit HOSTS"
OPEN = "ddp-play reboot -i INVENTORY --limit HOSTS --open"


def judge_hosts(answers: Sequence[HostAnswer], asked: Asked) -> tuple[Finding, ...]:
    """All findings; hosts of which the same was found share one. A host without facts is only in `host reached`.

    `asked`: inventory and login as the user named them, for the commands that help.
    """
    found = [_reached(answer) for answer in answers]
    facts = [answer.facts for answer in answers if answer.facts is not None]
    found += [_root(answer) for answer in answers if answer.facts is not None]
    for check in CHECKS:
        found += [replace(check(host), where=(host.name,)) for host in facts]
    return tuple(with_names(finding, asked) for finding in (*merged(found), *_together(facts)))


def with_names(finding: Finding, asked: Asked) -> Finding:
    """The finding with its commands for this inventory and these hosts."""
    command = complete(finding.command, asked).replace("HOSTS", ",".join(finding.where))
    return replace(finding, command=command, look=complete(finding.look, asked))


def merged(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings that differ in their hosts only, as one, at the place of the first."""
    hosts: dict[Finding, list[str]] = {}
    for finding in findings:
        hosts.setdefault(replace(finding, where=()), []).extend(finding.where)
    return tuple(replace(finding, where=tuple(names)) for finding, names in hosts.items())


def _reached(answer: HostAnswer) -> Finding:
    if answer.facts is None:
        return Finding(
            "host reached", FAIL, answer.problem, "nothing else is known of it", answer.hint, (answer.host,), True
        )
    return Finding("host reached", OK, f"as {answer.facts.user.login_name}", where=(answer.host,))


def _root(answer: HostAnswer) -> Finding:
    if answer.root_problem:
        why = "provision becomes root there; runs do not need it"
        command = (
            "ddp-play provision -i INVENTORY -K asks for the password; or let this user use sudo without one (visudo)"
        )
        return Finding("root rights", WARN, answer.root_problem, why, command, (answer.host,))
    return Finding("root rights", OK, "without a password", where=(answer.host,))


def _python(host: HostFacts) -> Finding:
    return Finding("host python", OK, f"{host.python_version} ({host.python})")


def _engine(host: HostFacts) -> Finding:
    engine = host.engine
    if engine is None:
        return Finding("engine", UNCHECKED, "it was not asked")
    why = "ranks in containers need it; ranks as processes do not"
    if engine.permission:
        name = host.user.name
        return Finding("engine", WARN, f"{name} may not use it: {engine.problem}", why, f"usermod -aG docker {name}")
    if engine.problem:
        return Finding("engine", WARN, engine.problem, why, PROVISION)
    if not engine.cli:
        return Finding("engine", WARN, f"{engine.version}, without the docker command", why, PROVISION)
    return Finding("engine", OK, engine.version)


def _disk(host: HostFacts) -> Finding:
    if host.disk_free_mib >= USUAL_FREE_MIB:
        return Finding("host disk", OK, "more than 1 GiB free for the state of runs")
    value = f"{host.disk_free_mib} MiB free in {host.state_dir or 'the directory of runs'}"
    status = FAIL if host.disk_free_mib < LEAST_FREE_MIB else WARN
    why = "logs of ranks and the state of runs are written there"
    return Finding("host disk", status, value, why, "make room there, or set ddp_state_dir for this host")


def _clock(host: HostFacts) -> Finding:
    if abs(host.clock_offset_s) <= CLOCK_SLACK_S:
        return Finding("host clock", OK, f"within {CLOCK_SLACK_S:g} s of the controller's")
    value = f"{host.clock_offset_s:+.1f} s off the controller's"
    return Finding("host clock", WARN, value, "logs and certificates go by it", "chronyc makestep")


def _files(host: HostFacts) -> Finding:
    if host.nofile_hard >= USUAL_FILES:
        return Finding("host open files", OK, f"at least {USUAL_FILES}")
    why = "connections between ranks and data loaders need more"
    return Finding("host open files", WARN, f"at most {host.nofile_hard}", why, PROVISION)


def _gpus(host: HostFacts) -> Finding:
    if host.gpu_problem:
        return Finding("gpus", FAIL, host.gpu_problem, "ranks would train on CPUs, or not at all", PROVISION)
    models = sorted({gpu.model for gpu in host.gpus})
    return Finding("gpus", OK, f"{len(host.gpus)} x {', '.join(models)}" if models else "none: ranks use CPUs")


def _shared(host: HostFacts) -> Finding:
    shared = host.shared
    if shared is None:
        return Finding("shared directory", OK, "none (ddp_shared_dir): sources are copied to each host")
    if shared.problem:
        value = f"{shared.path}: {shared.problem}"
        command = f"let {host.user.login_name} write there" if shared.permission else PROVISION
        return Finding("shared directory", FAIL, value, "sources and checkpoints are kept there", command)
    return Finding("shared directory", OK, f"{shared.path} ({shared.fstype or 'unknown file system'})")


def _drained(host: HostFacts) -> Finding:
    if host.drained:
        why = "runs leave it out"
        command = release(host) if host.quarantine else OPEN
        return Finding("takes runs", WARN, host.drained, why, command)
    return Finding("takes runs", OK, "yes")


CHECKS: tuple[Callable[[HostFacts], Finding], ...] = (
    _python, _engine, _disk, _clock, _files, _gpus, _shared, _drained,
)  # fmt: skip


def _together(hosts: list[HostFacts]) -> tuple[Finding, ...]:
    """Findings about the hosts as a group."""
    return (_machines(hosts), _shared_everywhere(hosts), _network(hosts)) if len(hosts) > 1 else ()


def _machines(hosts: list[HostFacts]) -> Finding:
    by_machine: dict[str, list[str]] = {}
    for host in hosts:
        by_machine.setdefault(host.machine, []).append(host.name)
    same = [names for names in by_machine.values() if len(names) > 1]
    if not same or len(by_machine) == 1:
        value = "all names are one machine" if same else f"{len(hosts)} machines"
        return Finding("different machines", OK, value, where=_names(hosts))
    value = "; ".join(f"{', '.join(names)} are one machine" for names in same)
    where = tuple(name for names in same for name in names)
    why = "their ranks would share GPUs and addresses"
    return Finding("different machines", FAIL, value, why, "keep one of the names in the inventory", where)


def _shared_everywhere(hosts: list[HostFacts]) -> Finding:
    without = [host for host in hosts if host.shared is None]
    if not without or len(without) == len(hosts):
        return Finding("ddp_shared_dir", OK, "not set" if without else "set for all hosts", where=_names(hosts))
    why = "a run refuses hosts of which only some have a shared directory"
    command = "set ddp_shared_dir in group_vars, for all of them"
    return Finding("ddp_shared_dir", FAIL, "not set for some hosts", why, command, _names(without))


def _network(hosts: list[HostFacts]) -> Finding:
    try:
        choice = choose_fabric(tuple(hosts))
    except DdpPlayError as error:
        return Finding("common network", FAIL, error.message, "ranks connect over it", error.hint, _names(hosts))
    value = f"{choice.network} ({choice.reason})" if choice.network else choice.reason
    return Finding("common network", OK, value, where=_names(hosts))


def _names(hosts: Iterable[HostFacts]) -> tuple[str, ...]:
    return tuple(host.name for host in hosts)
