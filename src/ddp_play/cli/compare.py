"""`ddp-play compare`: runs next to each other, what differs first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from ddp_play.bundle.paths import read_json, write_text
from ddp_play.bundle.run_lookup import find
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.page_file import check_output, writing
from ddp_play.errors import UsageError
from ddp_play.report.comparison import Row, compare, differences, shown, verdict
from ddp_play.report.comparison_page import comparison_page
from ddp_play.report.write_report import made_document

if TYPE_CHECKING:
    from collections.abc import Sequence

Runs = Annotated[
    list[str], typer.Argument(help="Two runs or more: ids, or their beginnings; `ddp-play ps` lists them.")
]
Html = Annotated[Path | None, typer.Option("--html", help="Also write a page, one file.")]
Everything = Annotated[bool, typer.Option("--all", help="Also what is equal.")]
LONGEST, CONTEXT = 60, 20  # characters of a value, and of those before a difference


def compare_runs(
    runs: Runs, *, everything: Everything = False, html: Html = None, as_json: options.Json = False
) -> None:
    """Compare runs: settings, hosts, versions and environment, then phases, throughput and metrics; differences first.

    Measured values count as different from 2 % on, times also from half a second on.

    [bold]Examples[/]

      ddp-play compare calm-otter-123 brave-lynx-456

      ddp-play compare calm-otter-123 brave-lynx-456 --html compare.html
    """
    with error_boundary():
        if len(runs) < 2:
            raise UsageError("compare needs two runs", hint="ddp-play ps lists them")
        if html is not None:
            check_output(html.absolute())
        found = [find(name) for name in runs]
        documents = [made_document(run) for run in found]
        rows = compare(documents, [read_json(run.paths.job) for run in found])
        names = [run.paths.run_id for run in found]
        if html is not None:
            with writing(html):
                write_text(html.absolute(), comparison_page(documents, rows))
        if as_json:
            console.as_json(_document(documents, rows))
        else:
            _show(names, rows, everything=everything)
        if html is not None:
            console.note(f"page: {html}")


def _document(documents: Sequence[dict[str, Any]], rows: Sequence[Row]) -> dict[str, Any]:
    runs = [
        {name: document["run"][name] for name in ("id", "status", "sentence", "created", "length")}
        for document in documents
    ]
    return {
        "runs": runs,
        "verdict": verdict(rows, [run["id"] for run in runs]),
        "rows": [row.to_json() for row in rows],
    }


def _show(names: Sequence[str], rows: Sequence[Row], *, everything: bool) -> None:
    console.line(verdict(rows, names), style="bold")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("", "", *names, *(["change"] if len(names) == 2 else [])):
        table.add_column(column, overflow="fold")
    for row in rows if everything else differences(rows):
        change = f"{row.change:+.1%}" if row.change is not None else ""
        cells = [row.section, row.name, *_cells(row), *([change] if len(names) == 2 else [])]
        table.add_row(*map(escape, cells), style="yellow" if row.differs else "dim")
    console.wide_table(table, columns=console.out.width)
    if not everything:
        console.note(f"{len(rows) - len(differences(rows))} others are equal; --all shows them")


def _cells(row: Row) -> list[str]:
    """The values, the long ones cut around the first character in which they differ."""
    texts = [shown(value) for value in row.values]
    num_equal = _num_equal(texts) if row.differs else 0
    begin = num_equal - CONTEXT if num_equal > LONGEST - CONTEXT else 0
    return [_cut(f"...{text[begin:]}" if begin else text) for text in texts]


def _num_equal(texts: Sequence[str]) -> int:
    """Number of characters with which all texts begin."""
    columns = enumerate(zip(*texts, strict=False))
    return next((at for at, column in columns if len(set(column)) > 1), min(map(len, texts)))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."
