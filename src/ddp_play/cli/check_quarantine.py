"""Quarantine of the hosts that a check found at fault, and their release: what is done, printed, and its exit code."""

from __future__ import annotations

import itertools
import shlex
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import typer

from ddp_play.checks import quarantine
from ddp_play.checks.check_levels import single_findings
from ddp_play.checks.finding import exit_class
from ddp_play.checks.quarantine_marks import as_login, origin
from ddp_play.cli import console
from ddp_play.errors import CheckFailed, HostNotReady, UsageError, error_class
from ddp_play.planning.host_selection import release_command
from ddp_play.planning.remedy_text import Asked, complete
from ddp_play.provisioning.change_listing import host_ranges

if TYPE_CHECKING:
    from collections.abc import Collection

    from ddp_play.ansible.runner import PlaybookRequest
    from ddp_play.checks.finding import Finding
    from ddp_play.checks.fleet import Fleet
    from ddp_play.checks.quarantine_marks import Marker

QUARANTINE = "Keep new runs away from hosts that fail: everybody's if root writes the list (-b), else yours."
RELEASE = "Let hosts in quarantine take runs again, if what they failed passes now."
NOBODY = "no host was put into quarantine"
STYLES = {"quarantined": "bold red", "failed": "bold red", "stays": "bold red", "released": "green"}
AT_FAULT = ("quarantined", "already", "failed")
WIDTH = 13


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one host: quarantined, already (it was), unclear, failed (to be marked), released, or stays."""

    host: str
    result: str
    why: str
    own: bool = False  # only the runs of this user are concerned
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Marked:
    """What a check did about the quarantine of hosts. `asked`: False without --quarantine and --release."""

    rows: tuple[Row, ...] = ()
    broken: str = ""  # so many failed that nobody was put into quarantine
    asked: bool = True
    nothing: str = ""  # printed where there are no rows

    def exit_class(self, findings: tuple[Finding, ...]) -> str:
        """Class of the exit code of the whole check."""
        if self.broken:
            return HostNotReady.kind
        found = exit_class(findings)
        not_done = any(row.result in ("failed", "stays") for row in self.rows)
        return CheckFailed.kind if not_done and found == "done" else found

    def exit_code(self, findings: tuple[Finding, ...]) -> int:
        """0 if nothing failed."""
        kind = self.exit_class(findings)
        return 0 if kind == "done" else error_class(kind).exit_code

    def end(self, findings: tuple[Finding, ...]) -> None:
        """End the command with this exit code, unless it is 0."""
        if code := self.exit_code(findings):
            raise typer.Exit(code)

    def to_json(self, findings: tuple[Finding, ...]) -> dict[str, Any]:
        """What it adds to the answer for `--json`."""
        if not self.asked:
            return {}
        rows = [asdict(row) for row in self.rows]
        return {"exit_class": self.exit_class(findings), "quarantine": {"broken": self.broken, "hosts": rows}}

    def show(self) -> None:
        """Print a line for each host, and what helps."""
        for row in self.rows:
            console.line(f"{row.result:<{WIDTH}}{row.host}: {row.why}", style=STYLES.get(row.result, "yellow"))
            if row.hint:
                console.line(f"{'':<{WIDTH}}-> {row.hint}")
        if self.broken:
            hint = "look at the failed checks above; to judge a few hosts by themselves: --limit"
            console.error(f"{self.broken}; {NOBODY}", hint=hint)
        elif self.nothing and not self.rows:
            console.line(self.nothing)


class Act(Protocol):
    """Writes or removes the marks of hosts that were checked, or does nothing."""

    def __call__(self, fleet: Fleet, marker: Marker, *, level: str) -> Marked:
        """Do it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What follows a check."""

    act: Act

    def asking(self, request: PlaybookRequest) -> PlaybookRequest:
        """The request of the check: for marks as the user of the login, although root writes them."""
        return request if self.act is nothing else as_login(request)


def chosen(*, quarantine: bool, release: bool) -> Choice:
    """What follows the check. UsageError for both options."""
    if quarantine and release:
        raise UsageError("--quarantine and --release exclude each other", hint="first --release, then --quarantine")
    if quarantine:
        return Choice(quarantine_failed)
    return Choice(release_passed if release else nothing)


def nothing(fleet: Fleet, marker: Marker, *, level: str) -> Marked:  # noqa: ARG001 - what the others need
    """Leave all marks as they are."""
    return Marked(asked=False)


def quarantine_failed(fleet: Fleet, marker: Marker, *, level: str, trusted: Collection[str] = ()) -> Marked:
    """Put the hosts into quarantine that are at fault. `trusted`: as `quarantine.decide` has it."""
    if not fleet.hosts:
        return Marked(nothing=f"no host was checked: {NOBODY}")
    facts = {host.name: host.facts for host in fleet.hosts if host.facts is not None}
    decision = quarantine.decide(single_findings(fleet, level), tuple(facts), trusted)
    if decision.broken:
        return Marked(broken=decision.broken)
    orders = {
        row.host: {
            **row.mark(level, len(facts)),
            **origin(),
            **marker.place_of(facts[row.host]),
        }
        for row in decision.failed
    }
    answers = marker.write(orders)
    rows = []
    for row in decision.failed:
        own, as_root = "directory" in orders[row.host], facts[row.host].user.uid == 0
        remedy = release_command(level, become=not own and not as_root) + _same_limit(marker)
        rows.append(_quarantined(row, answers[row.host], own=own, remedy=remedy))
    rows += [
        Row(host_ranges(hosts), "unclear", f"nobody is in quarantine for {check}: it cannot be told who is at fault")
        for check, hosts in decision.unclear
    ]
    return Marked(tuple(_complete(row, marker) for row in rows), nothing=f"no host{_of(fleet)} failed: {NOBODY}")


def _same_limit(marker: Marker) -> str:
    """The option that has the same hosts compared again."""
    limit = dict(itertools.pairwise(marker.request.options)).get("--limit", "")
    return f" --limit {shlex.quote(limit)}" if limit else ""


def _quarantined(failed: quarantine.Failed, answer: dict[str, Any], *, own: bool, remedy: str) -> Row:
    if "problem" in answer:
        return Row(failed.host, "failed", f"it was not put into quarantine: {answer['problem']}", own)
    if not answer["changed"]:
        return Row(failed.host, "already", f"it was in quarantine before; now it fails {failed.reason}", own)
    whose = "no new runs of yours, those of others go on (-b: of anybody)" if own else "no new runs of anybody"
    return Row(failed.host, "quarantined", f"{whose}: {failed.reason}", own, remedy)


def release_passed(fleet: Fleet, marker: Marker, *, level: str) -> Marked:
    """Release the hosts in quarantine that pass what they failed."""
    findings = single_findings(fleet, level)
    inside = [host for host in fleet.facts if host.quarantine is not None]
    stays = {}
    for host in inside:
        how = quarantine.Circumstances(level, len(fleet.facts), marker.becomes or host.user.uid == 0)
        stays[host.name] = quarantine.why_it_stays(host, findings, how)
    orders = {
        host.name: {"state": "released", "of_check": True, **(marker.place_of(host) if host.quarantine.own else {})}
        for host in inside
        if host.quarantine is not None and stays[host.name] is None
    }
    answers = marker.write(orders)
    rows = []
    for host in inside:
        own = host.quarantine is not None and host.quarantine.own
        if (problem := stays[host.name]) is not None:
            hint = problem.remedy.replace("HOSTS", host.name)
            rows.append(Row(host.name, "stays", problem.why, own, hint))
        else:
            rows.append(_released(host.name, answers[host.name], own=own))
    return Marked(tuple(_complete(row, marker) for row in rows), nothing=f"no host{_of(fleet)} is in quarantine")


def _of(fleet: Fleet) -> str:
    return "" if len(fleet.facts) == len(fleet.hosts) else " that answered"


def _released(host: str, answer: dict[str, Any], *, own: bool) -> Row:
    if problem := answer.get("problem") or answer.get("kept"):
        return Row(host, "failed", f"it was not released: {problem}", own)
    return Row(host, "released", "it takes runs again", own)


def _complete(row: Row, marker: Marker) -> Row:
    return replace(row, hint=complete(row.hint, Asked(marker.request.inventory, marker.request.options)))
