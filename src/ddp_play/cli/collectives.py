"""`ddp-play collectives`: test of every collective on the hosts, compared with torch's documentation."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ddp_play.cli import console, options, run_series
from ddp_play.cli.engine_verb import on_engine
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.measuring.measurement_findings import CollectiveResult, collective_table
from ddp_play.measuring.measurement_pages import collectives_page
from ddp_play.measuring.measurement_runs import FinishedRun, run_after_crash
from ddp_play.report.table_page import table_page

STYLES = {
    "works": "green",
    "refused": "yellow",
    "not run": "dim",
    **dict.fromkeys(("wrong", "hung", "crashed"), "bold red"),
}


@options.with_ansible
@on_engine("collectives")
def collectives(
    *,
    inventory: options.Inventory = None,
    backend: run_series.Backends = None,
    case_timeout: Annotated[float, typer.Option("--case-timeout", help="Seconds for one collective.")] = 10.0,
    name: run_series.Name = "",
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Try every collective on every backend and device of the hosts, and check the values on every rank.

    A star marks results that differ from torch's documentation. A hang is reported after twice --case-timeout.

    If a rank crashes in a collective, another run tries those after it.

    The job's variables (image, ranks per host, network) come from the inventory and from -e, as for a run.

    Exit codes: 0 all values right, 1 a wrong value, a hang or a crash, else the code of the failed run.

    [bold]Examples[/]

      ddp-play collectives -i inventory

      ddp-play collectives -i inventory -e ddp_job_image=team/train:2 --backend gloo --backend mpi
    """
    with error_boundary():
        command = ("{python}", "-m", "trainer", "collectives", "--case-timeout", f"{case_timeout:g}")
        backends, optional = tuple(backend or ()), ("mpi",)
        finished = run_series.run_variants(
            "collectives",
            inventory,
            ansible,
            command,
            backends=backends,
            name=name,
            optional_backends=optional,
            next_run=run_after_crash,
        )
        _write_and_show(finished, as_json=as_json)
        raise typer.Exit(run_series.exit_code(finished))


def _write_and_show(finished: list[FinishedRun], *, as_json: bool) -> None:
    """Write the table into the bundles and print it."""
    table = collective_table({str(run.variant): run.result for run in finished if run.result})
    document = {"runs": [_run_as_json(run) for run in finished]}
    page = table_page(collectives_page(table, finished)).encode()
    files = {"collectives.txt": _as_text(table, finished).encode(), "collectives.html": page}
    run_series.write_to_bundles(finished, "collectives", document, files)
    if as_json:
        console.as_json(document)
        return
    console.wide_table(_result_table(table, finished), columns=console.out.width)
    for line in _details(table):
        console.line(line)
    run_series.print_failures(finished)
    console.note(run_series.bundle_line(finished, "collectives.html, collectives.txt and collectives.json"))


def _run_as_json(run: FinishedRun) -> dict[str, Any]:
    names = ("run", "bundle", "exit_code", "message")
    further = [{key: value for key, value in row.to_json().items() if key in names} for row in run.further]
    return {**run.to_json(), "further_runs": further}


def _result_table(table: dict[str, dict[str, CollectiveResult]], finished: list[FinishedRun]) -> Table:
    """Two columns for each backend and device: the result here, and the entry of torch's table."""
    result_table = Table(box=None, pad_edge=False, header_style="bold")
    result_table.add_column("collective")
    variants = [str(finished_run.variant) for finished_run in finished if finished_run.result]
    for variant in variants:
        result_table.add_column(variant)
        result_table.add_column("documented")
    for row, cells in table.items():
        texts = []
        for variant in variants:
            cell = cells.get(variant) or CollectiveResult("not run", None, "")
            texts.append(f"[{STYLES[cell.status]}]{cell.status}{'*' if cell.differs else ''}[/]")
            texts.append({True: "yes", False: "no", None: "-"}[cell.documented])
        result_table.add_row(escape(row), *texts)
    return result_table


def _details(table: dict[str, dict[str, CollectiveResult]]) -> list[str]:
    """torch's message for every collective that did not work."""
    return [
        f"{variant}, {name}: {cell.status}: {cell.detail}"
        for name, cells in table.items()
        for variant, cell in cells.items()
        if cell.detail and cell.status != "not run"
    ]


def _as_text(table: dict[str, dict[str, CollectiveResult]], finished: list[FinishedRun]) -> str:
    return console.as_text(_result_table(table, finished)) + "".join(f"{line}\n" for line in _details(table))
