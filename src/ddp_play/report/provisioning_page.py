"""Page of a provisioning run: hosts and roles, failures with remedies, what waits, what would change. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.provisioning.change_listing import grouped, host_ranges
from ddp_play.provisioning.host_role_table import Cell as RoleCell
from ddp_play.provisioning.host_role_table import CellStatus
from ddp_play.report.table_page import Cell, TableOfPage, TablePage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddp_play.provisioning.playbook_run import Report

KINDS = {
    CellStatus.CHANGED: "warn",
    CellStatus.OK: "pass",
    CellStatus.FAILED: "fail",
    CellStatus.UNREACHABLE: "fail",
    CellStatus.STOPPED: "fail",
    CellStatus.SKIPPED: "dim",
    CellStatus.NOT_RUN: "dim",
}
LONGEST = 2000


def provisioning_page(report: Report) -> TablePage:
    """The page of a report of `provision`, `verify` or `deprovision`."""
    cells = report.cells
    tables = (_failures(cells), _waiting(cells), _changes(report), _matrix(cells), _reasons(cells))
    is_bad = report.error() is not None
    state = "fail" if is_bad else "warn" if any(cell.pending for cell in cells) else "pass"
    lines = (f"{report.effort}{', only checked' if report.check else ''}",)
    about = (f"Ansible's output: {report.log}",)
    return TablePage(report.verdict, state, lines, about, tuple(table for table in tables if table.rows))


def _status(cell: RoleCell) -> Cell:
    changed = f" {cell.num_changed}" if cell.status is CellStatus.CHANGED else ""
    return Cell(str(cell.status).replace("_", " ") + changed, KINDS[cell.status])


def _matrix(cells: Sequence[RoleCell]) -> TableOfPage:
    """A row for each host and a column for each role; the other way round where the roles are more."""
    hosts, roles = (tuple(dict.fromkeys(names)) for names in ([c.host for c in cells], [c.role for c in cells]))
    found = {frozenset((cell.host, cell.role)): _status(cell) for cell in cells}
    lines, columns = (roles, hosts) if len(roles) > len(hosts) else (hosts, roles)
    rows = tuple(
        (Cell(line), *(found.get(frozenset((line, column)), Cell("-", "dim")) for column in columns)) for line in lines
    )
    return TableOfPage("Hosts and roles", ("Host" if lines is hosts else "Role", *columns), rows)


def _failures(cells: Sequence[RoleCell]) -> TableOfPage:
    rows = tuple(
        (
            Cell(cell.host),
            Cell(cell.role),
            _status(cell),
            Cell(cell.task),
            Cell(cell.message[-LONGEST:]),
            Cell(cell.remedy),
        )
        for cell in cells
        if cell.status.bad
    )
    return TableOfPage("Failed", ("Host", "Role", "Result", "Task", "Message", "What helps"), rows)


def _waiting(cells: Sequence[RoleCell]) -> TableOfPage:
    """Changes that wait, and what a removal leaves."""
    rows = tuple(
        (Cell(cell.host), Cell(cell.role), Cell(kind, "warn"), Cell(text[:LONGEST]))
        for cell in cells
        for kind, text in (("waits", cell.pending), ("stays", cell.left))
        if text
    )
    return TableOfPage("Waits or stays", ("Host", "Role", "What", "Why"), rows)


def _changes(report: Report) -> TableOfPage:
    rows = tuple(
        (
            Cell(host_ranges(group.hosts)),
            Cell(str(line.kind)),
            Cell(str(line.whose)),
            Cell(line.role),
            Cell(", ".join(line.what)),
        )
        for group in grouped(report.changes)
        for line in group.lines
    )
    title = "What would change" if report.check else "What changed"
    return TableOfPage(title, ("Hosts", "Change", "Whose", "Role", "What"), rows)


def _reasons(cells: Sequence[RoleCell]) -> TableOfPage:
    """Why roles were skipped or not run, with the hosts of each reason; not what a failure before them prevented."""
    found: dict[tuple[str, str, str], list[str]] = {}
    failed = {cell.host for cell in cells if cell.status.bad}
    for cell in cells:
        is_consequence = cell.status is CellStatus.NOT_RUN and cell.host in failed
        if cell.reason and not cell.status.bad and not is_consequence:
            found.setdefault((cell.role, str(cell.status).replace("_", " "), cell.reason), []).append(cell.host)
    rows = tuple(
        (Cell(role), Cell(status), Cell(host_ranges(hosts)), Cell(reason[:LONGEST], "dim"))
        for (role, status, reason), hosts in found.items()
    )
    return TableOfPage("Skipped", ("Role", "Result", "Hosts", "Why"), rows)
