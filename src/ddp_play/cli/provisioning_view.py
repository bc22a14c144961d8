"""Output of provisioning: first the plan, then a line per host and role, at the end the table."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.markup import escape
from rich.table import Table

from ddp_play.bundle.summary import duration
from ddp_play.cli import console
from ddp_play.provisioning.change_listing import ChangeKind, ChangeRow, Owner, grouped, host_ranges
from ddp_play.provisioning.host_role_table import Cell, CellStatus
from ddp_play.provisioning.phases import Phase
from ddp_play.provisioning.playbook_run import PlaybookPlan, Report

STYLES = {
    CellStatus.CHANGED: "yellow",
    CellStatus.OK: "green",
    CellStatus.SKIPPED: "dim",
    CellStatus.FAILED: "bold red",
    CellStatus.UNREACHABLE: "bold red",
    CellStatus.STOPPED: "bold red",
    CellStatus.NOT_RUN: "dim",
}
CHANGE_STYLES = {
    ChangeKind.REMOVE: "bold red",
    ChangeKind.REBOOT: "bold red",
    ChangeKind.RESTART: "yellow",
    ChangeKind.CHANGE: "yellow",
    ChangeKind.ADD: "green",
}
PAGE = "report.html"  # of a provisioning run, next to its report.json
MAX_ROLE_COLUMNS = 8  # with more roles the table is transposed: a row per role


@dataclass
class PhaseView:
    """Prints events of provisioning; implements `ddp_play.provisioning.role_events.ProvisioningObserver`."""

    update: Callable[[str], None]
    started: float = field(default_factory=time.monotonic)
    current: str = ""
    seen: set[str] = field(default_factory=set)
    num_hosts: int = 0
    waits: dict[str, str] = field(default_factory=dict)  # host -> the reason that was printed last

    def phase(self, phase: Phase) -> None:
        """Show the new phase and reset the count of hosts that finished a task."""
        self.current, self.num_hosts = f"{phase.name} ({', '.join(phase.roles)})", len(phase.hosts)
        self.seen.clear()
        self.update(self.current)
        if not console.err.is_terminal:
            self._line(f"{self.current} on {_host_list(phase.hosts)}")

    def task(self, name: str, host: str) -> None:
        """Show the task in the status line. Without a terminal nothing is printed."""
        self.seen.add(host)
        self.update(f"{self.current}: {name[:60]}, {len(self.seen)}/{self.num_hosts} hosts")

    def waiting(self, host: str, why: str) -> None:
        """Print why a host is waited for, once for each reason."""
        if why and self.waits.get(host) != why:
            self.waits[host] = why
            self._line(f"{host}: waiting: {_short(why, 200)}", style="yellow")

    def cell(self, cell: Cell) -> None:
        """Print the result of a role on a host. The report says once for all hosts why one was skipped."""
        if cell.status is not CellStatus.SKIPPED:
            self._line(f"{cell.host}: {cell.role} {cell_text(cell)}", style=STYLES[cell.status])

    def _line(self, text: str, style: str = "dim") -> None:
        console.note(f"{duration(time.monotonic() - self.started):>12} {text}", style=style)


@contextmanager
def phase_view() -> Iterator[PhaseView]:
    """Show a status line on a terminal until the block ends."""
    with console.err.status("starting") as status:
        yield PhaseView(lambda text: status.update(escape(text)))


def cell_text(cell: Cell) -> str:
    """Result of a role on a host as a short text."""
    if cell.status is CellStatus.CHANGED:
        return f"changed {cell.num_changed}"
    return f"failed: {_short(cell.message)}" if cell.status is CellStatus.FAILED else str(cell.status)


def _short(text: str, width: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."


def show_plan(planned: PlaybookPlan) -> None:
    """Print the phases with their hosts and roles to stderr; only the final table goes to stdout."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("phase", "hosts", "roles"):
        table.add_column(column)
    for phase in planned.phases:
        table.add_row(escape(phase.name), escape(_host_list(phase.hosts)), ", ".join(phase.roles))
    console.err.print(table)
    console.note("")


def show_batches(batches: tuple[tuple[str, ...], ...]) -> None:
    """Print the hosts of each batch to stderr."""
    for number, hosts in enumerate(batches, start=1):
        console.note(f"batch {number} of {len(batches)}: {host_ranges(hosts)}")
    console.note("")


def _host_list(hosts: tuple[str, ...]) -> str:
    return (", ".join(hosts) if len(hosts) <= 4 else host_ranges(hosts)) or "-"


def show_changes(rows: tuple[ChangeRow, ...], *, complete: bool = True, waiting: bool = False) -> None:
    """Print what a provisioning would change: groups of hosts with the same changes, the most dangerous first.

    `complete`: every role has said all that it would change; `waiting`: other changes wait for busy hosts.
    """
    for group in grouped(rows):
        console.line(f"{host_ranges(group.hosts)}:", style="bold")
        for line in group.lines:
            style = "dim" if line.whose is not Owner.THEIRS else CHANGE_STYLES[line.kind]
            subjects = ", ".join(line.what)
            console.line(f"  {line.kind:<8}{line.whose:<7} {line.role}: {subjects}", style=style)
    counts = {kind: sum(row.kind is kind for row in rows) for kind in ChangeKind}
    found = ", ".join(f"{number} {kind}" for kind, number in counts.items() if number)
    rest = " now; what waits for busy hosts is pending below" if waiting else ""
    rest += "" if complete else " before it ended; the rest is not known"
    console.line((f"would change: {found}" if found else "nothing would change") + rest)


def show_report(report: Report) -> None:
    """Print the table of hosts and roles, reasons of skipped roles, what waits or stays, and failures with remedies."""
    if report.check:
        complete = not any(cell.status.bad for cell in report.cells)
        show_changes(report.changes, complete=complete, waiting=any(cell.waits for cell in report.cells))
        console.line()
    console.wide_table(_table(report.cells), columns=console.out.width)
    _show_skipped(report.cells)
    for cell, hosts in _alike(report.cells):
        if cell.pending:
            console.line(f"{hosts}: {cell.role} pending: {_short(cell.pending, 400)}", style="yellow")
        if cell.left:
            console.line(f"{hosts}: {cell.role} leaves: {_short(cell.left, 300)}")
    for cell, hosts in _alike(report.cells):
        if cell.status.bad:
            _show_failure(cell, hosts)
    console.line(f"{report.verdict}; {report.effort}")
    console.note(f"log: {report.log}   page: {report.directory / PAGE}")


def _alike(cells: tuple[Cell, ...]) -> list[tuple[Cell, str]]:
    """A cell of each role and text, with all hosts of which the same is to be said."""
    found: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        key = (cell.role, cell.status, cell.task, cell.message, cell.remedy, cell.pending, cell.left)
        found.setdefault(key, []).append(cell)
    return [(rows[0], _host_list(tuple(row.host for row in rows))) for rows in found.values()]


def _show_failure(cell: Cell, hosts: str) -> None:
    where = f" at {cell.task!r}" if cell.task else ""
    console.line(f"{hosts}: {cell.role}: {cell.status}{where}", style="bold red")
    for line in cell.message.splitlines()[-12:]:
        console.line(f"  | {line}")
    if cell.remedy:
        console.line(f"  -> {cell.remedy}", style="yellow")


def _table(cells: tuple[Cell, ...]) -> Table:
    hosts = tuple(dict.fromkeys(cell.host for cell in cells))
    roles = tuple(dict.fromkeys(cell.role for cell in cells))
    rows, columns = (hosts, roles) if len(roles) <= MAX_ROLE_COLUMNS and len(roles) < len(hosts) else (roles, hosts)
    by_names = {frozenset((cell.host, cell.role)): cell for cell in cells}
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("host" if rows is hosts else "role")
    for column in columns:
        table.add_column(escape(column))
    for row in rows:
        table.add_row(escape(row), *(_table_entry(by_names.get(frozenset((row, column)))) for column in columns))
    return table


def _table_entry(cell: Cell | None) -> str:
    if cell is None:
        return "-"
    text = f"changed {cell.num_changed}" if cell.status is CellStatus.CHANGED else str(cell.status).replace("_", " ")
    return f"[{STYLES[cell.status]}]{text}[/]"


def _show_skipped(cells: tuple[Cell, ...]) -> None:
    """Print one line per reason and role with its hosts. Roles that a failure prevented are only in the table."""
    failed_hosts = {cell.host for cell in cells if cell.status.bad}
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for cell in cells:
        if cell.reason and not (cell.status is CellStatus.NOT_RUN and cell.host in failed_hosts):
            kind = str(cell.status).replace("_", " ")
            reasons.setdefault((cell.role, kind, _short(cell.reason, 400)), []).append(cell.host)
    for (role, kind, reason), hosts in reasons.items():
        console.line(f"{role} {kind} on {_host_list(tuple(hosts))}: {reason}", style="dim")
