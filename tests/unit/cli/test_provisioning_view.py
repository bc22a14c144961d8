"""Output of provisioning from a table of results."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddp_play.ansible.runner import PlaybookOutcome, PlaybookStatus
from ddp_play.cli import console
from ddp_play.cli.provisioning_view import (
    _host_list,
    _show_skipped,
    _table,
    cell_text,
    phase_view,
    show_changes,
    show_report,
)
from ddp_play.provisioning.change_listing import ChangeKind, ChangeRow, Owner
from ddp_play.provisioning.host_role_table import Cell, CellStatus, verdict_line
from ddp_play.provisioning.phases import Phase
from ddp_play.provisioning.playbook_run import Report


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (Cell("h1", "nccl"), "ok"),
        (Cell("h1", "nccl", CellStatus.CHANGED, num_changed=3), "changed 3"),
        (Cell("h1", "nccl", CellStatus.FAILED, message="no\n  space"), "failed: no space"),
        (Cell("h1", "nccl", CellStatus.UNREACHABLE), "unreachable"),
    ],
)
def test_a_result_as_text(cell: Cell, expected: str) -> None:
    assert cell_text(cell) == expected


@pytest.mark.parametrize(
    ("hosts", "expected"),
    [((), "-"), (("h1", "h2"), "h1, h2"), (tuple(f"h{n}" for n in range(1, 7)), "h[1-6]")],
)
def test_hosts_as_text(hosts: tuple[str, ...], expected: str) -> None:
    assert _host_list(hosts) == expected


def rows(cells: tuple[Cell, ...]) -> list[list[str]]:
    return [line.split() for line in console.as_text(_table(cells)).splitlines()]


def test_the_table_has_a_row_per_host_while_the_roles_fit() -> None:
    cells = tuple(Cell(host, role) for host in ("h1", "h2", "h3") for role in ("nccl", "rdma"))
    assert rows(cells) == [["host", "nccl", "rdma"], *(["h" + n, "ok", "ok"] for n in "123")]


def test_the_table_has_a_row_per_role_when_there_are_more_roles_than_hosts() -> None:
    cells = (Cell("h1", "nccl"), Cell("h1", "rdma"), Cell("h2", "rdma", CellStatus.CHANGED, num_changed=1))
    assert rows(cells) == [["role", "h1", "h2"], ["nccl", "ok", "-"], ["rdma", "ok", "changed", "1"]]


def test_a_reason_is_printed_once_for_all_its_hosts_and_not_after_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    skipped = tuple(Cell(host, "rdma", CellStatus.SKIPPED, reason="no NIC") for host in ("h1", "h2"))
    failed = Cell("h3", "base_os", CellStatus.FAILED)
    _show_skipped((*skipped, failed, Cell("h3", "rdma", CellStatus.NOT_RUN, reason="base_os failed before it")))
    assert capsys.readouterr().out.splitlines() == ["rdma skipped on h1, h2: no NIC"]


def test_a_host_that_is_waited_for_is_a_line_for_each_reason(capsys: pytest.CaptureFixture[str]) -> None:
    with phase_view() as view:
        for why in ("db runs", "db runs", "", "ranks run", "db runs"):
            view.waiting("h1", why)
        view.waiting("h2", "db runs")
    lines = [line.split(" waiting: ") for line in capsys.readouterr().err.splitlines()]
    assert [(host.split()[-1], why) for host, why in lines] == [
        ("h1:", "db runs"),
        ("h1:", "ranks run"),
        ("h1:", "db runs"),
        ("h2:", "db runs"),
    ]


def test_phases_and_results_are_lines_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with phase_view() as view:
        view.phase(Phase("Operating system", ("h1",), ("base_os",)))
        view.task("install packages", "h1")
        view.cell(Cell("h1", "base_os"))
    err = capsys.readouterr().err
    assert "Operating system (base_os) on h1" in err
    assert "h1: base_os ok" in err
    assert "install packages" not in err


def test_a_skipped_role_is_told_in_the_report_and_not_while_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with phase_view() as view:
        view.cell(Cell("h1", "rdma", CellStatus.SKIPPED, reason="no NIC"))
    assert capsys.readouterr().err == ""


def report(*cells: Cell, verified: bool = True, wall_s: float = 3.42) -> Report:
    outcome = PlaybookOutcome(PlaybookStatus.OK, 0, (), "")
    return Report("id", Path("/r"), Path("/log"), cells, outcome, wall_s, verified=verified)


def test_failures_are_the_last_lines_before_the_verdict_and_equal_ones_are_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    skipped = [Cell(host, "rdma", CellStatus.SKIPPED, reason="no NIC") for host in ("h1", "h2", "h3")]
    failed = Cell("h1", "base_os", CellStatus.FAILED, task="t", message="no chrony", remedy="install it")
    stopped = [Cell(host, "slurm", CellStatus.STOPPED, message="with another host") for host in ("h2", "h3")]
    left = [Cell(host, "nccl", pending="a reboot", left="nothing") for host in ("h1", "h2")]
    show_report(report(failed, *skipped, *stopped, *left))
    text = capsys.readouterr().out
    assert text[text.index("rdma skipped") :].splitlines() == [
        "rdma skipped on h1, h2, h3: no NIC",
        "h1, h2: nccl pending: a reboot",
        "h1, h2: nccl leaves: nothing",
        "h1: base_os: failed at 't'",
        "  | no chrony",
        "  -> install it",
        "h2, h3: slurm: stopped",
        "  | with another host",
        f"{verdict_line((failed, *skipped, *stopped, *left), verified=True)}; 3.4 s",
    ]


@pytest.mark.parametrize(
    ("cell", "verified", "expected"),
    [
        (Cell("h1", "nccl"), True, "1 host, 1 role as provisioned; 3.4 s"),
        (Cell("h1", "nccl", num_tasks=1), True, "1 host, 1 role as provisioned; 1 task in 3.4 s"),
        (Cell("h1", "nccl", CellStatus.CHANGED, 2, 12), False, "1 host, changed=2; 12 tasks in 3.4 s"),
    ],
)
def test_the_last_line(capsys: pytest.CaptureFixture[str], cell: Cell, verified: bool, expected: str) -> None:
    show_report(report(cell, verified=verified))
    assert capsys.readouterr().out.splitlines()[-1] == expected


def test_changes_are_printed_once_for_all_hosts_that_get_them(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        ChangeRow(f"gpu0{number}", "docker_engine", kind, what, whose)
        for number in (1, 2, 3)
        for kind, what, whose in (
            (ChangeKind.ADD, "package a", Owner.NEW),
            (ChangeKind.ADD, "package b", Owner.NEW),
            (ChangeKind.RESTART, "unit docker.service", Owner.THEIRS),
        )
    ]
    show_changes((*rows, ChangeRow("head", "base_os", ChangeKind.REMOVE, "package c", Owner.THEIRS)))
    assert capsys.readouterr().out.splitlines() == [
        "head:",
        "  remove  theirs  base_os: package c",
        "gpu[01-03]:",
        "  restart theirs  docker_engine: unit docker.service",
        "  add     new     docker_engine: package a, package b",
        "would change: 1 remove, 3 restart, 6 add",
    ]


def test_no_change_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    show_changes(())
    assert capsys.readouterr().out == "nothing would change\n"
    show_changes((), waiting=True)
    assert capsys.readouterr().out == "nothing would change now; what waits for busy hosts is pending below\n"
