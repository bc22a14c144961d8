"""Hosts of a check as types: what each answered, and the rules that compare them. Pure.

A rule says what it found of one host. What it could not read becomes a finding UNCHECKED with the reason, never a pass.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.job_terms import JobTerms
from ddp_play.checks.peer_addresses import PeerNetwork
from ddp_play.planning.host_facts import facts_from_json
from ddp_play.planning.host_selection import BURN_IN_LEVEL, FULL_LEVEL
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from ddp_play.planning.host_facts import HostFacts

NOT_OURS = "the answer is not what ddp-play's program sends"
ODD = (LookupError, TypeError, ValueError, AttributeError)  # what reading such an answer raises
# Of fewer hosts none is odd: two that differ do not show which is wrong.
LEAST_TO_COMPARE = 3
NO_NETWORK = PeerNetwork()
ANY_JOB = JobTerms()
QUICK, FULL, BURN_IN = "quick", FULL_LEVEL, BURN_IN_LEVEL  # levels of a check, each with all that the one before has
T = TypeVar("T")


class NotRun(Exception):  # noqa: N818 - no error: the reason why a check has no result
    """A reading is missing. `broken`: it is there on other hosts of this kind, and here a tool hung or failed."""

    def __init__(self, reason: str, *, broken: bool) -> None:
        super().__init__(reason)
        self.reason, self.broken = reason, broken


@dataclass(frozen=True, slots=True)
class CheckedHost:
    """One host of a check. Without `facts` it could not be asked; `lost`: why it stopped answering."""

    name: str
    facts: HostFacts | None = None
    problem: str = ""
    hint: str = ""
    lost: str = ""
    readings: Mapping[str, Any] = field(default_factory=dict)
    reached: Mapping[str, Any] = field(default_factory=dict)
    clock: Mapping[str, Any] = field(default_factory=dict)
    ended: Mapping[str, Any] = field(default_factory=dict)
    counters: Mapping[str, Any] = field(default_factory=dict)  # of NICs, after the measurements
    outputs: Mapping[str, Any] = field(default_factory=dict)  # of its diagnostic programs
    container: Mapping[str, Any] = field(default_factory=dict)  # of a container as that of a rank
    dcgm: Mapping[str, Any] = field(default_factory=dict)  # NVIDIA's own diagnostic of its GPUs, and its level
    late: str = ""  # why something was not read: the check had no time left

    @property
    def known(self) -> HostFacts:
        """Its facts; only of a host that has some."""
        if self.facts is None:
            raise NotRun("the host could not be asked", broken=True)
        return self.facts

    def read(self, name: str) -> Any:
        """The value of a reading. Raises NotRun."""
        return self._value(self.readings, name)

    def saw(self, name: str) -> Any:
        """The value of a reading about its peers. Raises NotRun."""
        return self._value(self.reached, name)

    def gave_back(self, name: str) -> Any:
        """What became of something that the check had on the host, at its end. Raises NotRun."""
        return self._value(self.ended, name)

    def counted(self, name: str) -> Any:
        """What was counted by the end of the measurements. Raises NotRun."""
        return self._value(self.counters, name)

    def diagnosed(self, name: str) -> Any:
        """What NVIDIA's diagnostic printed. Raises NotRun."""
        return self._value(self.dcgm, name)

    def in_container(self) -> Mapping[str, Any]:
        """What the program in a container of the job answered. Raises NotRun."""
        found: Mapping[str, Any] = self._value(self.container, "program")
        return found

    def in_rank(self, name: str) -> Mapping[str, Any]:
        """What a part of this program has found. Raises NotRun."""
        answer = self.in_container()
        for row in answer["parts"]:
            if row.get("part") == name:
                if "problem" in row:
                    raise NotRun(str(row["problem"])[:400], broken=True)
                return dict(row)
        raise NotRun(str(answer.get("problem") or "it printed nothing")[:400], broken=not answer.get("missing"))

    def _value(self, rows: Mapping[str, Any], name: str) -> Any:
        row = rows.get(name)
        if row is None:
            raise NotRun(self.lost or self.late or "it was not read", broken=True)
        if "value" not in row:
            raise NotRun(str(row["problem"])[:400], broken=not row.get("not_here"))
        return row["value"]


@dataclass(frozen=True, slots=True)
class Fleet:
    """All hosts of a check, and the network between them."""

    hosts: tuple[CheckedHost, ...]
    network: PeerNetwork = NO_NETWORK
    matrix: Mapping[str, Any] | None = None  # of `pair_exchange.Matrix.to_json`; None below the full level
    late: str = ""  # why something is missing: the check had no time left
    terms: JobTerms = ANY_JOB
    torch: Mapping[str, Any] | None = None  # of `torch_load.TorchLoad.measure`; None below the full level
    burn_in: Mapping[str, Any] | None = None  # of `burn_in.BurnIn.run`; None where none was begun
    counted_s: float = 0.0  # seconds between the two readings of counters; 0: there was one

    @property
    def reached(self) -> tuple[CheckedHost, ...]:
        """The hosts that have facts."""
        return tuple(host for host in self.hosts if host.facts is not None)

    @property
    def facts(self) -> tuple[HostFacts, ...]:
        """Facts of all hosts that have some."""
        return tuple(host.facts for host in self.hosts if host.facts is not None)


def fleet_from_json(document: Mapping[str, Any]) -> Fleet:
    """The fleet from the document of `check_exchange.exchange`."""
    network = dict(document["network"])
    for name in ("addresses", "interfaces"):
        network[name] = tuple((host, value) for host, value in network[name])
    late = document.get("late", "")
    hosts = tuple(replace(_host(name, row), late=late) for name, row in sorted(document["hosts"].items()))
    return Fleet(
        hosts, PeerNetwork(**network), document.get("matrix"), late, torch=document.get("torch"),
        burn_in=document.get("burn_in"), counted_s=document.get("counted_s", 0.0),
    )  # fmt: skip


def _host(name: str, row: Mapping[str, Any]) -> CheckedHost:
    if "facts" not in row:
        problem = row.get("problem") or {}
        return CheckedHost(name, problem=problem.get("message", "it gave no answer"), hint=problem.get("hint", ""))
    parts: dict[str, Any] = {
        part: row.get(part) or {}
        for part in ("readings", "reached", "clock", "ended", "counters", "outputs", "container", "dcgm")
    }  # fmt: skip
    return CheckedHost(name, facts_from_json(name, row["facts"]), lost=row.get("lost", ""), **parts)


def ok(value: str) -> Finding:
    """What a rule returns of a host where all is well."""
    return Finding("", Status.OK, value)


def not_run(check: str, host: str, reason: str, *, broken: bool) -> Finding:
    """The finding of a check that has no result."""
    return Finding(check, Status.UNCHECKED, reason, where=(host,), broken=broken)


def attempt(check: str, host: CheckedHost, rule: Callable[[CheckedHost], T]) -> T | Finding:
    """What the rule returns of the host, or the finding that it could not be applied."""
    try:
        return rule(host)
    except NotRun as missing:
        return not_run(check, host.name, missing.reason, broken=missing.broken)
    except ODD as error:
        return not_run(check, host.name, f"{NOT_OURS} ({type(error).__name__}: {error})", broken=True)


def guarded(group: Callable[[Fleet], Iterable[Finding]], fleet: Fleet) -> tuple[Finding, ...]:
    """The findings of a group of checks; the finding that there are none, where an answer has another form."""
    try:
        return tuple(group(fleet))
    except ODD as error:
        name = group.__name__.replace("_", " ")
        reason = f"{NOT_OURS} ({type(error).__name__}: {error})"
        return tuple(not_run(name, host.name, reason, broken=True) for host in fleet.reached)


def each(fleet: Fleet, check: str, rule: Callable[[CheckedHost], Finding | None]) -> Iterator[Finding]:
    """The finding of a rule about every host that answered. None: the check is not about this host."""
    for host in fleet.reached:
        found = attempt(check, host, rule)
        if found is not None:
            yield replace(found, check=check, where=(host.name,))


@dataclass(frozen=True, slots=True)
class Compared:
    """How a value is compared over the fleet, and what is said of a host where it differs."""

    check: str
    why: str
    status: Status = Status.WARN  # of a host that has another value than most
    look: str = ""
    command: str = ""
    shown: Callable[[Any], str] = str
    alike: Callable[[Any, Any], bool] = lambda one, other: bool(one == other)
    is_harmless: Callable[[Any, Any], bool] = lambda _value, _usual: False  # warn at most, of (value, that of most)


def same_everywhere(fleet: Fleet, rule: Compared, read: Callable[[CheckedHost], Hashable | None]) -> Iterator[Finding]:
    """One value on all hosts, or findings about those that differ from most. None: the host has no such thing."""
    values: dict[str, Any] = {}
    for host in fleet.reached:
        found = attempt(rule.check, host, read)
        if isinstance(found, Finding):
            yield found
        elif found is not None:
            values[host.name] = found
    if values:
        yield from compare(rule, values)


def compare(rule: Compared, values: Mapping[str, Any]) -> Iterator[Finding]:
    """Findings about values by host; there is at least one."""
    usual, having = _most(values, rule.alike)
    if len(having) == len(values):
        yield Finding(rule.check, Status.OK, rule.shown(usual), where=tuple(values))
        return
    if len(values) < LEAST_TO_COMPARE or 2 * len(having) <= len(values):
        yield _undecided(rule, values)
        return
    yield Finding(rule.check, Status.OK, rule.shown(usual), where=having)
    for host in values:
        if host in having:
            continue
        harmless = rule.is_harmless(values[host], usual)
        yield Finding(
            rule.check, Status.WARN if harmless else rule.status, rule.shown(values[host]), rule.why, rule.command,
            (host,), limit=rule.shown(usual), source=f"the value of most hosts, {len(having)} of {len(values)}",
            others=f"{rule.shown(usual)} on {names(having)}", look=rule.look,
        )  # fmt: skip


def _undecided(rule: Compared, values: Mapping[str, Any]) -> Finding:
    """Hosts that differ without a majority. None of them is blamed."""
    shown: dict[str, list[str]] = {}
    for host, value in values.items():
        shown.setdefault(rule.shown(value), []).append(host)
    text = "; ".join(f"{value} on {names(hosts)}" for value, hosts in sorted(shown.items()))
    return Finding(
        rule.check, Status.WARN, f"differs: {text}", rule.why, rule.command, tuple(values), limit="one value",
        source=f"the hosts with each other: of {len(values)} without a majority, it cannot be told which is right",
        look=rule.look,
    )  # fmt: skip


def _most(values: Mapping[str, Any], alike: Callable[[Any, Any], bool]) -> tuple[Any, tuple[str, ...]]:
    """The value that most hosts have, and these hosts."""
    groups = [(value, tuple(host for host, other in values.items() if alike(other, value))) for value in
              dict.fromkeys(values.values())]  # fmt: skip
    return max(groups, key=lambda group: len(group[1]))


def different_everywhere(
    fleet: Fleet, rule: Compared, read: Callable[[CheckedHost], Iterable[str]]
) -> Iterator[Finding]:
    """No host has a value of another one, or a finding names those who share it. Names of one machine count once.

    Nothing is said of a host that has no such value.
    """
    answers = {host.name: attempt(rule.check, host, lambda host: tuple(read(host))) for host in fleet.reached}
    yield from (found for found in answers.values() if isinstance(found, Finding))
    having = {name: found for name, found in answers.items() if found and not isinstance(found, Finding)}
    machines = {host.name: host.known.machine for host in fleet.reached}
    owners: dict[str, dict[str, str]] = {}
    for name, value in ((name, value) for name, found in having.items() for value in found):
        owners.setdefault(value, {})[machines[name]] = name
    shared: dict[tuple[str, ...], list[str]] = {}
    for value, by_machine in owners.items():
        if len(by_machine) > 1:
            shared.setdefault(tuple(by_machine.values()), []).append(value)
    for hosts, values in shared.items():
        yield Finding(
            rule.check, rule.status, ", ".join(values[:3]), rule.why, rule.command, hosts, limit="its own on each host",
            source="identity of a machine", look=rule.look,
        )  # fmt: skip
    if clean := tuple(name for name in having if not any(name in hosts for hosts in shared)):
        yield Finding(rule.check, Status.OK, "its own on each host", where=clean)


def names(hosts: Iterable[str], most: int = 4) -> str:
    """Names of hosts in a text: `h1, h2 and 5 more`."""
    return short_list(hosts, most)


def counted(values: Iterable[str]) -> str:
    """Equal texts once, with their number: `8 x H100`."""
    return ", ".join(f"{number} x {value}" for value, number in sorted(Counter(values).items()))
