"""Acceptance of hosts that were just provisioned for the first time: a quick check of them against the other hosts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.checks.check_levels import judge, single_findings
from ddp_play.checks.check_scope import CheckScope
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import QUICK
from ddp_play.checks.fleet_answers import ask_fleet
from ddp_play.checks.quarantine_marks import BECOME, CHECKED, Marker, as_login
from ddp_play.cli import check_quarantine, console
from ddp_play.cli.check import show_findings
from ddp_play.errors import CheckFailed, DdpPlayError, HostNotReady
from ddp_play.planning.host_selection import release_command
from ddp_play.planning.remedy_text import Asked
from ddp_play.provisioning.change_listing import host_ranges
from ddp_play.provisioning.playbook_run import OF_RANKS
from ddp_play.provisioning.rolling import without_limit

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ddp_play.ansible.runner import Passwords
    from ddp_play.checks.fleet import Fleet
    from ddp_play.cli.check_quarantine import Marked
    from ddp_play.provisioning.playbook_run import PlaybookPlan

AGAIN = "ddp-play provision -i INVENTORY checks them again"


@dataclass(frozen=True, slots=True)
class Accepted:
    """Result for the new hosts. `open`: those that are neither accepted nor at fault, with the reason."""

    accepted: tuple[str, ...]
    open: Mapping[str, str]
    marked: Marked
    findings: tuple[Finding, ...] = ()  # about the new hosts, merged

    def show(self) -> None:
        """Print what failed and what may be better, and what became of each host."""
        show_findings(self.findings)
        self.marked.show()
        if self.accepted:
            console.line(f"accepted     {host_ranges(self.accepted)}: no check failed", style="green")

    def to_json(self) -> dict[str, Any]:
        """What it adds to the report; with an error, that of the whole command."""
        marked = self.marked.to_json(self.findings)["quarantine"]
        document = {"acceptance": {"accepted": list(self.accepted), "open": dict(self.open), "quarantine": marked}}
        error = self.error()
        if error is None:
            return document
        return {**document, "exit_class": error.kind, "exit_code": error.exit_code, "message": error.message}

    def error(self) -> DdpPlayError | None:
        """None if all new hosts are accepted."""
        failed = tuple(row.host for row in self.marked.rows if row.result in check_quarantine.AT_FAULT)
        if failed:
            one = len(failed) == 1
            text = f"{host_ranges(failed)} {'was' if one else 'were'} provisioned, and failed the acceptance"
            where = "in quarantine: runs leave it out" if one else "in quarantine: runs leave them out"
            if any(row.result == "failed" for row in self.marked.rows):
                return CheckFailed(f"{text}; not all could be put into quarantine (above)", hint=AGAIN, hosts=failed)
            return CheckFailed(f"{text}; {where}", hint=release_command(QUICK, become=True), hosts=failed)
        if self.marked.broken:
            names = tuple(self.open)
            text = f"{self.marked.broken}; {check_quarantine.NOBODY}, and {host_ranges(names)} not accepted"
            return HostNotReady(text, hint=f"look at the failed checks above; {AGAIN}", hosts=names)
        if self.open:
            rows = "\n".join(f"{host}: {why}" for host, why in self.open.items())
            return HostNotReady(f"provisioned, and not accepted yet:\n{rows}", hint=AGAIN, hosts=tuple(self.open))
        return None


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What follows a provisioning."""

    planned: PlaybookPlan
    passwords: Passwords

    def __call__(self, new: tuple[str, ...]) -> Accepted | None:
        """Check the new hosts that run ranks against the others that do; None without any."""
        new = tuple(host for host in new if host in self.planned.ranks)
        if not new:
            return None
        console.note(f"acceptance of {host_ranges(new)}: compared with the other hosts (--no-check leaves it out)")
        options, runner = without_limit(self.planned.request.options), AnsibleRunner()
        request = dataclasses.replace(self.planned.request, tags=(), options=(*options, "--limit", OF_RANKS))
        fleet = ask_fleet(as_login(request), self.passwords, runner, scope=CheckScope())
        as_root = dataclasses.replace(request, options=(*options, BECOME))
        return accept(fleet, new, Marker(as_root, self.passwords, runner))


def accept(fleet: Fleet, new: Collection[str], marker: Marker) -> Accepted:
    """Put new hosts at fault into quarantine, and note on the others that they were checked."""
    names = [host.name for host in fleet.hosts]
    trusted = tuple(name for name in names if name not in new)
    marked = check_quarantine.quarantine_failed(fleet, marker, level=QUICK, trusted=trusted)
    marked = dataclasses.replace(marked, nothing="")
    judged = {row.host for row in marked.rows if row.result in check_quarantine.AT_FAULT}
    undecided = {name: why for name in names if name in new and name not in judged and (why := _why_open(fleet, name))}
    if marked.broken:  # who failed nothing is accepted all the same
        failing = {host for row in single_findings(fleet, QUICK) if row.status is Status.FAIL for host in row.where}
        doubtful = {name: marked.broken for name in names if name in new and name in failing}
        undecided |= doubtful
        marked = marked if doubtful else dataclasses.replace(marked, broken="")
    failed_to_mark = {row.host for row in marked.rows if row.result == "failed"}
    done = [name for name in new if name not in undecided and name not in failed_to_mark]
    answers = marker.write(dict.fromkeys(done, CHECKED))
    undecided |= {name: f"that it was checked could not be noted: {row['problem']}"
                  for name, row in answers.items() if "problem" in row}  # fmt: skip
    done = [name for name in done if name not in undecided]
    accepted = tuple(name for name in names if name in done and name not in judged)
    asked = Asked(marker.request.inventory, marker.request.options)
    findings = tuple(row for row in judge(fleet, QUICK, asked) if set(row.where) & set(new))
    return Accepted(accepted, undecided, marked, findings)


def _why_open(fleet: Fleet, name: str) -> str:
    """Why nothing is known of a host that is not at fault; empty if all is."""
    rows = [row for row in single_findings(fleet, QUICK) if name in row.where]
    for row in rows:
        if row.unreachable:
            return f"it could not be asked: {row.value}"
        if row.status is Status.FAIL:
            return f"{row.check}: {row.value}; it cannot be told whose fault it is"
    broken = [f"{row.check}: {row.value}" for row in rows if row.broken]
    return f"checks could not be made: {'; '.join(broken)}" if broken else ""
