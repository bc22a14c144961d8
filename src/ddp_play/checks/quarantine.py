"""Which hosts of a check belong in quarantine and which may leave it; when too many fail, no host is to blame. Pure.

The findings are those before hosts of which the same was found share one: a finding about several hosts is then one
that cannot tell which of them is at fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import BURN_IN, FULL, LEAST_TO_COMPARE, QUICK
from ddp_play.planning.host_selection import RELEASE_BY_HAND, release

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from ddp_play.planning.host_facts import HostFacts, Quarantine

# From so many failed hosts on, more than half of the fleet is no longer a matter of single hosts.
LEAST_FOR_BREAKER = 3
SHOWN = ("check", "value", "limit", "source", "others")


@dataclass(frozen=True, slots=True)
class Failed:
    """A host that failed, with what it failed."""

    host: str
    findings: tuple[Finding, ...]

    @property
    def reason(self) -> str:
        """One line: the checks by name, each with the value."""
        return "; ".join(f"{finding.check}: {finding.value}" for finding in self.findings)

    def mark(self, level: str, num_hosts: int) -> dict[str, Any]:
        """What the host keeps of it: options of the module `host_quarantine`."""
        return {
            "state": "quarantined",
            "reason": self.reason,
            "level": level,
            "checks": list(dict.fromkeys(finding.check for finding in self.findings)),
            "num_hosts": num_hosts,
            "evidence": [
                {name: text for name in SHOWN if (text := getattr(finding, name))} for finding in self.findings
            ],
        }


@dataclass(frozen=True, slots=True)
class Decision:
    """The hosts that belong in quarantine. `broken`: so many failed that the test or the network is; then nobody."""

    failed: tuple[Failed, ...] = ()
    unclear: tuple[tuple[str, tuple[str, ...]], ...] = ()  # (check, hosts): without telling which is at fault
    broken: str = ""


def decide(findings: Iterable[Finding], hosts: Collection[str], trusted: Collection[str] = ()) -> Decision:
    """Who belongs in quarantine. `hosts`: those that answered, in the order of the answer.

    `trusted`: hosts that were there before; they stay, and what is wrong between one of them and another host is the
    fault of that one.
    """
    rows = [row for row in findings if row.status is Status.FAIL and not row.unreachable]
    own: dict[str, list[Finding]] = {}
    unclear: dict[str, dict[str, None]] = {}
    for row in rows:
        blamed = row.where if len(row.where) == 1 else tuple(host for host in row.where if host not in trusted)
        if len(blamed) == 1:
            own.setdefault(blamed[0], []).append(row)
        elif blamed:
            unclear.setdefault(row.check, {}).update(dict.fromkeys(blamed))
    failed = tuple(Failed(host, tuple(own[host])) for host in hosts if host in own)
    if _too_many(len(failed), len(hosts)):
        which = f"all {len(hosts)}" if len(failed) == len(hosts) else f"{len(failed)} of {len(hosts)}"
        return Decision(broken=f"{which} hosts failed: the test or the network is broken")
    between = tuple((check, tuple(hosts)) for check, hosts in unclear.items())
    return Decision(tuple(row for row in failed if row.host not in trusted), between)


def _too_many(num_failed: int, num_hosts: int) -> bool:
    if num_failed == num_hosts:
        return num_hosts > 1
    return num_failed >= LEAST_FOR_BREAKER and num_failed * 2 > num_hosts


@dataclass(frozen=True, slots=True)
class Stays:
    """Why a host stays in quarantine, and what helps."""

    why: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """How a check was made that may release hosts.

    `num_hosts`: those that answered, since a host that is compared with nobody passes every comparison.
    `as_root`: marks are changed by root.
    """

    level: str
    num_hosts: int
    as_root: bool


def why_it_stays(host: HostFacts, findings: Collection[Finding], how: Circumstances) -> Stays | None:
    """Why a host in quarantine is not released after this check; None if it may be, or if it is in none."""
    mark = host.quarantine
    if mark is None:
        return None
    return _why_not_ours(host, mark, how) or _why_not_passed(host.name, mark, findings)


def _why_not_ours(host: HostFacts, mark: Quarantine, how: Circumstances) -> Stays | None:
    """Why this check cannot release the host, whatever it found."""
    if not mark.level:
        return Stays(f"no check put it there, so none releases it: {mark.why}", release(host))
    if _rank_of(how.level) < _rank_of(mark.level):
        return Stays(f"it failed at level {mark.level}: {mark.why}", release(host))
    if not mark.own and not how.as_root:
        return Stays("root put it there for everybody", "repeat it with -b: root takes it off the list")
    if mark.own and how.as_root and host.user.uid != 0:
        return Stays(f"it is on the own list of {host.user.name}", "repeat it without -b")
    if how.num_hosts < (least := min(mark.num_hosts, LEAST_TO_COMPARE)):
        text = (
            f"{mark.num_hosts} hosts were compared when it failed; now {how.num_hosts} answered, and {least} are needed"
        )
        return Stays(text, f"with more hosts, or without --limit: {release(host).partition(': ')[2]}")
    return None


def _rank_of(level: str) -> int:
    """A level has the checks of those below it. One that nobody knows is below all."""
    return (QUICK, FULL, BURN_IN).index(level) if level in (QUICK, FULL, BURN_IN) else 0


def _why_not_passed(host: str, mark: Quarantine, findings: Iterable[Finding]) -> Stays | None:
    rows = [row for row in findings if host in row.where]
    by_hand = "" if mark.own else f"to end it all the same: {RELEASE_BY_HAND}"
    # What is wrong between hosts has put none of them into quarantine, and keeps none there.
    own = [row for row in rows if row.where == (host,) or row.check in mark.checks]
    if failed := [row for row in own if row.status is Status.FAIL]:
        return Stays("it fails: " + "; ".join(f"{row.check}: {row.value}" for row in failed), by_hand)
    passed = {row.check for row in rows if row.status is Status.OK}
    missing = [name for name in _owed(mark, rows) if name not in passed]
    if missing:
        others = {row.check: f" ({row.value})" for row in rows}
        text = "; ".join(f"{name}{others.get(name, ' (no result)')}" for name in missing)
        return Stays(f"it must pass: {text}", by_hand)
    return None


def _owed(mark: Quarantine, rows: Iterable[Finding]) -> tuple[str, ...]:
    """What the host has to pass. Of a burn-in also its end; where there is no torch, nothing can begin one."""
    cannot = any(row.check == BURN_IN and row.status is Status.UNCHECKED and not row.broken for row in rows)
    is_owed = mark.level == BURN_IN and not cannot
    return (*mark.checks, BURN_IN) if is_owed and BURN_IN not in mark.checks else mark.checks
