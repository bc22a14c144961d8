"""`ddp-play collectives`: which collectives work on these hosts, compared with torch's documentation."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ddp_play.cli import console, options, run_series
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.measuring.measurement_findings import Cell, collective_table
from ddp_play.measuring.measurement_runs import Finished

STYLES = {"works": "green", "refused": "yellow", "wrong": "bold red", "hung": "bold red", "not run": "dim"}


@options.with_ansible
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

    A star marks what differs from torch's own table. A hang is a result: it ends after twice the limit of a case.

    The job's variables (image, ranks per host, network) come from the inventory and from -e, as for a run.

    Exit codes: 0 all values right, 1 a wrong value or a hang, else that of the run that failed.

    [bold]Examples[/]

      ddp-play collectives -i inventory

      ddp-play collectives -i inventory -e ddp_job_image=team/train:2 --backend gloo --backend mpi
    """
    with error_boundary():
        command = ("{python}", "-m", "trainer", "collectives", "--case-timeout", f"{case_timeout:g}")
        finished = run_series.run_everywhere(
            "collectives", inventory, ansible, command, backends=tuple(backend or ()), name=name, also=("mpi",)
        )
        table = collective_table({str(one.way): one.result for one in finished if one.result})
        document = {"runs": [one.to_json() for one in finished]}
        run_series.keep(finished, "collectives", document, {"collectives.txt": _as_text(table, finished).encode()})
        if as_json:
            console.as_json(document)
        else:
            console.out.print(_rich(table, finished))
            for line in _details(table):
                console.line(line)
            run_series.say_failures(finished)
            console.note(run_series.bundle_line(finished, "collectives.txt and collectives.json"))
        raise typer.Exit(run_series.exit_code(finished))


def _rich(table: dict[str, dict[str, Cell]], finished: list[Finished]) -> Table:
    """Two columns for each backend and device: the result here, and the entry of torch's table."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("collective")
    ways = [str(one.way) for one in finished if one.result]
    for way in ways:
        shown.add_column(way)
        shown.add_column("documented")
    for row, cells in table.items():
        texts = []
        for way in ways:
            cell = cells.get(way) or Cell("not run", None, "")
            texts.append(f"[{STYLES[cell.status]}]{cell.status}{'*' if cell.differs else ''}[/]")
            texts.append({True: "yes", False: "no", None: "-"}[cell.documented])
        shown.add_row(escape(row), *texts)
    return shown


def _details(table: dict[str, dict[str, Cell]]) -> list[str]:
    """torch's message for every collective that did not work."""
    return [
        f"{way}, {name}: {cell.status}: {cell.detail}"
        for name, cells in table.items()
        for way, cell in cells.items()
        if cell.detail and cell.status != "not run"
    ]


def _as_text(table: dict[str, dict[str, Cell]], finished: list[Finished]) -> str:
    return console.as_text(_rich(table, finished)) + "".join(f"{line}\n" for line in _details(table))
