"""`ddp-play check`: whether hosts are as good as the others, and reach each other as ranks do."""

from __future__ import annotations

import textwrap
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.checks.check_levels import LEVELS, judge
from ddp_play.checks.finding import Finding, Status, count_by_status, exit_class
from ddp_play.checks.fleet import BURN_IN, FULL
from ddp_play.checks.fleet_answers import ask_fleet
from ddp_play.checks.missing_checks import condensed
from ddp_play.checks.own_records import with_records
from ddp_play.checks.quarantine_marks import Marker
from ddp_play.cli import check_files, check_job, check_self_test, console, options
from ddp_play.cli.check_records import show_records
from ddp_play.cli.engine_verb import on_engine
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import UsageError
from ddp_play.planning.remedy_text import Asked
from ddp_play.provisioning.change_listing import host_ranges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.ansible.runner import Passwords, PlaybookRequest
    from ddp_play.checks.check_scope import CheckScope
    from ddp_play.checks.fleet import Fleet
    from ddp_play.checks.own_records import OwnRecords
    from ddp_play.cli.check_quarantine import Marked

# The four results. `doctor` has used other words for two of them since its first version.
RESULTS = {Status.FAIL: "FAIL", Status.UNCHECKED: "NOT RUN", Status.WARN: "warn", Status.OK: "pass"}
STYLES = {Status.OK: "green", Status.UNCHECKED: "magenta", Status.WARN: "yellow", Status.FAIL: "bold red"}
RESULT_WIDTH, CHECK_WIDTH = 9, 21
INDENT = " " * RESULT_WIDTH
TAKES = {
    FULL: ": three seconds a host up to 16 hosts, fifteen above if nothing is found, and with torch ten more",
    BURN_IN: ", for all of the time; Ctrl-C ends it with what it has found by then",
}
MOST_COLUMNS = 12


@options.with_ansible
@check_files.with_wanted
@check_self_test.with_self_test
@on_engine("check", playbook="bench")
def check(
    *,
    playbook: options.Playbook = None,
    inventory: options.Inventory = None,
    level: Annotated[str, typer.Option("--level", help=f"What is checked: {', '.join(LEVELS)}.")] = "quick",
    everything: Annotated[bool, typer.Option("--all", help="Also each check that passed.")] = False,
    wanted: check_files.Wanted,
    tested: check_self_test.SelfTestOptions,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Check whether hosts are fit for jobs: equal to each other, and reaching each other as ranks do.

    With a playbook: the hosts of its job's plan, with its network, ports and limits. What could not be checked never
    counts as passed. The full level loads network and CPUs: nothing else should use them.
    The exit code is 1 if a check failed, and 69 if a host could not be asked or a check could not be made.

    [bold]Examples[/]

      ddp-play check train.yml -i inventory; ddp-play check -i inventory --level full --html check.html

      ddp-play check --self-test
    """
    with error_boundary():
        check_self_test.run_if_wanted(tested, has_hosts=bool(inventory or playbook), as_json=as_json)
        choice = wanted.choice(of_job=playbook is not None)
        request = _requested(ansible, playbook, inventory, level)
        passwords, scope, began = _begin(ansible, wanted.scope(level), inventory)
        ask, asked = check_job.ask_hosts_of if playbook else _ask_hosts, Asked(request.inventory, request.options)
        fleet, about_job = ask(choice.asking(request), passwords, scope, asked)
        findings, records = _judged(fleet, scope, asked, about_job)
        marked = choice.act(fleet, Marker(request, passwords, AnsibleRunner()), level=level)
        took_s = time.monotonic() - began
        answer = {**document(findings, level, fleet, records), **marked.to_json(findings)}
        if as_json:
            console.as_json(answer)
        else:
            show_all(findings, fleet, (records, marked), took_s=took_s, everything=everything)
        wanted.write(fleet, answer, rows_of(condensed(findings)), took_s)
        marked.end(findings)


def _begin(
    ansible: options.Ansible, scope: CheckScope, inventory: list[str] | None
) -> tuple[Passwords, CheckScope, float]:
    """Passwords, and the scope without the time in which they were typed; then the check begins, and says so."""
    came = time.monotonic()
    passwords, began = ansible.passwords(), time.monotonic()
    of = ", ".join(inventory or ()) or "the inventory of Ansible's configuration"
    console.note(f"checking the hosts of {of}, level {scope.level}{TAKES.get(scope.level, '')}")
    return passwords, scope.later(began - came), began


def _ask_hosts(
    request: PlaybookRequest, passwords: Passwords, scope: CheckScope, _asked: Asked
) -> tuple[Fleet, tuple[Finding, ...]]:
    """All hosts of the inventory; there is no job that anything could be found about."""
    return ask_fleet(request, passwords, AnsibleRunner(), scope=scope, say=console.note), ()


def _judged(
    fleet: Fleet, scope: CheckScope, asked: Asked, about_job: tuple[Finding, ...]
) -> tuple[tuple[Finding, ...], OwnRecords]:
    """All findings, and the part of the records in them."""
    findings = judge(fleet, scope.level, asked)
    records = with_records(fleet, findings, level=scope.level, record=scope.record, asked=asked)
    return (*about_job, *findings, *records.findings), records


def show_all(
    findings: tuple[Finding, ...], fleet: Fleet, more: tuple[OwnRecords, Marked], *, took_s: float, everything: bool
) -> None:
    """Print the findings, and what is none: rates between the hosts, their records, and their quarantine."""
    records, marked = more
    show(findings, num_hosts=len(fleet.hosts), took_s=took_s, everything=everything)
    _show_matrix(fleet.matrix)
    show_records(records)
    marked.show()


def _requested(
    ansible: options.Ansible, playbook: str | None, inventory: list[str] | None, level: str
) -> PlaybookRequest:
    """Request for the hosts of the job or of the inventory. UsageError without any, and for an unknown level."""
    if level not in LEVELS:
        raise UsageError(f"no level {level}", hint=f"the levels are: {', '.join(LEVELS)}")
    return ansible.request(playbook, inventory) if playbook else ansible.request_for_hosts(inventory)


def document(findings: tuple[Finding, ...], level: str, fleet: Fleet, records: OwnRecords) -> dict[str, Any]:
    """The answer for `--json`."""
    hosts = [host.name for host in fleet.hosts]
    matrix = {} if fleet.matrix is None else {"matrix": fleet.matrix}
    common = {"exit_class": exit_class(findings), "level": level, "hosts": hosts, "records": records.to_json()}
    load = {name: part for name, part in (("torch", fleet.torch), ("burn_in", fleet.burn_in)) if part is not None}
    return {**common, "findings": rows_of(findings), **matrix, **load}


def rows_of(findings: tuple[Finding, ...]) -> list[dict[str, Any]]:
    """Findings as rows of a document."""
    rows = []
    for finding in findings:
        row = finding.to_json()
        del row["status"]
        rows.append({**row, "result": RESULTS[finding.status].lower(), "broken": finding.broken})
    return rows


def show(findings: tuple[Finding, ...], *, num_hosts: int, took_s: float, everything: bool) -> None:
    """Print the findings, the worst first, and a line with their numbers."""
    width = show_findings(findings, everything=everything)
    counts = count_by_status(findings)
    text = ", ".join(f"{counts[status]} {RESULTS[status]}" for status in RESULTS if counts[status])
    skipped = (
        0 if everything else sum(not _matters(finding) for finding in findings if finding.status is Status.UNCHECKED)
    )
    hidden = f" ({skipped} of NOT RUN cannot be read there; --all shows {_them(skipped)})" if skipped else ""
    total = f"{num_hosts} {'host' if num_hosts == 1 else 'hosts'}, {took_s:.1f} s: {text}{hidden}"
    for line in textwrap.wrap(total, width, subsequent_indent=INDENT):
        console.line(line)


def show_findings(findings: tuple[Finding, ...], *, everything: bool = False) -> int:
    """Print those that matter, or all of them, the worst first. Returns the width of a line."""
    width = console.out.width if console.out.is_terminal else console.UNLIMITED
    shown = findings if everything else condensed(findings)
    for status in RESULTS:
        for finding in shown:
            if finding.status is status and (everything or _matters(finding)):
                _show(finding, width)
    return width


def _them(number: int) -> str:
    return "it" if number == 1 else "them"


def _matters(finding: Finding) -> bool:
    return finding.status in (Status.FAIL, Status.WARN) or finding.broken


def _show(finding: Finding, width: int) -> None:
    """A finding; the command to look with has a line of its own that is never broken, so that it can be copied."""
    where = host_ranges(finding.where)
    text = f"{RESULTS[finding.status]:<{RESULT_WIDTH}}{finding.check:<{CHECK_WIDTH}} {where}: {finding.value}"
    lines = textwrap.wrap(text, width, subsequent_indent=INDENT, break_on_hyphens=False, drop_whitespace=False)
    for line in lines or [text]:
        console.line(line.rstrip(), style=STYLES[finding.status])
    if finding.status in (Status.OK, Status.UNCHECKED):
        return
    for text in _details(finding):
        for line in textwrap.wrap(
            text, width, initial_indent=INDENT, subsequent_indent=INDENT + "  ", break_on_hyphens=False
        ):
            console.line(line)
    if finding.look:
        console.line(f"{INDENT}look: {finding.look}")
    remedy = f"-> {finding.command}" if finding.command else ""
    for line in textwrap.wrap(
        remedy, width, initial_indent=INDENT, subsequent_indent=INDENT + "   ", break_on_hyphens=False
    ):
        console.line(line)


def _details(finding: Finding) -> list[str]:
    """Direction, limit with its source, and the other hosts; then why it matters."""
    ways = ", ".join(f"{start} -> {end}" for start, end in finding.directions)
    limit = f"limit: {finding.limit} ({finding.source})" if finding.limit else ""
    others = f"others: {finding.others}" if finding.others else ""
    if limit and finding.others.startswith(finding.limit):  # the limit is what they have
        limit, others = f"{others} ({finding.source})", ""
    return [text for text in (ways, "; ".join(part for part in (limit, others) if part), finding.why) if text]


def _show_matrix(matrix: Mapping[str, Any] | None) -> None:
    """Mb/s from each host (row) to each other (column), while they fit a line; `--json` has them all."""
    hosts = sorted(matrix["hosts"]) if matrix else []
    if not matrix or len(hosts) > MOST_COLUMNS:
        return
    rates = {(row["source"], row["target"]): row["mbps"] for row in matrix["directions"]}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Mb/s to")
    for host in hosts:
        table.add_column(escape(host), justify="right")
    for host in hosts:
        cells = [rates.get((host, other)) for other in hosts]
        table.add_row(f"from {escape(host)}", *("-" if rate is None else f"{rate:.0f}" for rate in cells))
    console.wide_table(table)
