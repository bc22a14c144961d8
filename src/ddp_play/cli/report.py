"""`ddp-play report`: one page about a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddp_play.bundle.paths import write_text
from ddp_play.bundle.run_lookup import find
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.page_file import check_output, writing
from ddp_play.errors import UsageError
from ddp_play.report.write_report import made_document, made_page

if TYPE_CHECKING:
    from ddp_play.bundle.run_lookup import Run

Output = Annotated[Path | None, typer.Option("--output", help="Write the page here, not into the bundle.")]


def report(run_id: options.RunId = "-", *, output: Output = None, as_json: options.Json = False) -> None:
    """Write one page about a run: timeline, metrics, samples, traffic, ranks, logs; of the newest without a run id.

    One file that needs no network. Every run writes it at its end: report.html in its bundle.

    --json prints the same data and writes no page.

    [bold]Examples[/]

      ddp-play report

      ddp-play report calm-otter-123 --output /tmp/report.html

      ddp-play report calm-otter-123 --json | jq .timeline.phase_seconds
    """
    with error_boundary():
        if as_json and output is not None:
            raise UsageError("--json writes no page, and --output is for the page", hint="give one of them")
        run = find(run_id)
        if as_json:
            console.as_json(made_document(run), indent=None)
            return
        console.line(str(_write(run, output)))


def _write(run: Run, output: Path | None) -> Path:
    path = (output or run.paths.report).absolute()
    check_output(path)
    page = made_page(made_document(run))
    with writing(path):
        write_text(path, page)
    return path
