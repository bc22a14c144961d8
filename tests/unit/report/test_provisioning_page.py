"""The page of a provisioning run."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.ansible.runner import PlaybookOutcome, PlaybookStatus
from ddp_play.provisioning.change_listing import ChangeKind, ChangeRow, Owner
from ddp_play.provisioning.host_role_table import Cell, CellStatus
from ddp_play.provisioning.playbook_run import Report
from ddp_play.report.provisioning_page import provisioning_page
from ddp_play.report.table_page import table_page

from .hostile import BAD, MARKS
from .page_reader import PageReader, needs_nothing_else

OK = Cell("h1", "base_os", CellStatus.OK)
FAILED = Cell("h2", "base_os", CellStatus.FAILED, task="Install", message="no space", remedy="free some")


def report(*cells: Cell, changes: tuple[ChangeRow, ...] = (), check: bool = False) -> Report:
    status = PlaybookStatus.FAILED if any(cell.status.bad for cell in cells) else PlaybookStatus.OK
    outcome = PlaybookOutcome(status, 2 if status is PlaybookStatus.FAILED else 0, (), "")
    return Report("id", Path("/r"), Path("/log"), cells, outcome, 1.0, changes, check)


def texts(made: Report) -> dict[str, list[list[str]]]:
    return {
        table.title: [[cell.text for cell in row] for row in table.rows] for table in provisioning_page(made).tables
    }


@pytest.mark.parametrize(
    ("cells", "state"),
    [
        ((OK,), "pass"),
        ((OK, Cell("h1", "nccl", CellStatus.OK, pending="a reboot")), "warn"),
        ((OK, FAILED), "fail"),
    ],
)
def test_the_state_on_top(cells: tuple[Cell, ...], state: str) -> None:
    assert provisioning_page(report(*cells)).state == state


def test_hosts_and_roles_failures_and_reasons() -> None:
    skipped = [Cell(host, "rdma", CellStatus.SKIPPED, reason="no device") for host in ("h1", "h2")]
    changed = Cell("h1", "nccl", CellStatus.CHANGED, num_changed=3)
    assert texts(report(OK, changed, FAILED, *skipped)) == {
        "Failed": [["h2", "base_os", "failed", "Install", "no space", "free some"]],
        "Hosts and roles": [["base_os", "ok", "failed"], ["nccl", "changed 3", "-"], ["rdma", "skipped", "skipped"]],
        "Skipped": [["rdma", "skipped", "h[1-2]", "no device"]],
    }


def test_of_many_hosts_each_has_a_row_and_consequences_have_no_reason() -> None:
    cells = [Cell(f"h{number}", "base_os") for number in range(3)]
    late = Cell("h9", "nccl", CellStatus.NOT_RUN, reason="base_os failed before it")
    found = texts(report(*cells, Cell("h9", "base_os", CellStatus.FAILED), late))
    assert [row[0] for row in found["Hosts and roles"]] == ["h0", "h1", "h2", "h9"]
    assert "Skipped" not in found


def test_what_would_change() -> None:
    row = ChangeRow("h1", "docker_engine", ChangeKind.RESTART, "docker.service", Owner.THEIRS)
    found = texts(report(OK, changes=(row,), check=True))
    assert found["What would change"] == [["h1", "restart", "theirs", "docker_engine", "docker.service"]]


def test_hostile_texts_stay_texts() -> None:
    """`provision`, `verify` and `deprovision` have this page."""
    cell = Cell(BAD, BAD, CellStatus.FAILED, reason=BAD, task=BAD, message=BAD, remedy=BAD, left=BAD, pending=BAD)
    skipped = Cell(f"{BAD}2", BAD, CellStatus.SKIPPED, reason=BAD)
    row = ChangeRow(BAD, BAD, ChangeKind.RESTART, BAD, Owner.THEIRS)
    page = table_page(provisioning_page(report(cell, skipped, changes=(row,))))
    reader = PageReader(page)
    needs_nothing_else(reader)
    assert "script" not in {tag for tag, _ in reader.tags}
    assert not any(mark in page for mark in MARKS)
