"""`ddp-play results`: verdict, results and artifacts of a run."""

from __future__ import annotations

from typing import Any

import typer
from rich.filesize import decimal
from rich.markup import escape

from ddp_play.bundle.bundle_size import LIST_ENTRIES, RECORDED, Budget, size_of
from ddp_play.bundle.paths import RunPaths, read_json, read_rows
from ddp_play.bundle.summary import headline, rank_rows, summary
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.lost_supervisor import refuse_unattended
from ddp_play.errors import Busy
from ddp_play.planning.plan_document import ranks_by_host
from ddp_play.run.engine_runs import find


def results(run_id: options.RunId = "-", as_json: options.Json = False) -> None:
    """Show a run's verdict, its ranks, their results and artifacts; exits with the run's own code.

    The exit code is 75 while the run goes on, and 70 if it lost its supervisor.

    [bold]Examples[/]

      ddp-play results

      ddp-play results calm-otter-123 --json | jq .results
    """
    with error_boundary():
        run = find(run_id)
        if as_json:
            console.as_json({**run.document, **_collected(run.paths)})
        else:
            _show(run.paths, run.document)
        refuse_unattended(run)
        raise typer.Exit(run.exit_code if run.status.final else Busy.exit_code)


def _collected(paths: RunPaths) -> dict[str, Any]:
    plan = read_json(paths.plan)
    ranks = [rank for numbers in (ranks_by_host(plan) if plan else {}).values() for rank in numbers]
    manifest = paths.artifacts_manifest
    return {
        "results": {str(rank): read_json(paths.result(rank)) for rank in ranks},
        "logs": {str(rank): str(paths.log(rank)) for rank in ranks},
        "artifacts": read_rows(manifest),
        "bundle": str(paths.root),
        RECORDED: size_of(paths.root, read_json(paths.run), Budget(LIST_ENTRIES)),
    }


def _show(paths: RunPaths, document: dict[str, Any]) -> None:
    for text in summary(paths, document):
        console.line(text)
    for rank, host, state, how in rank_rows(document):
        result = headline(read_json(paths.result(int(rank))))
        ended = how if state == "exited" and how else f"{state} {how}".rstrip()
        line = f"  [bold]{escape(host)}:{rank}[/] {escape(ended)}"
        console.out.print(line + (f"  [dim]{escape(result)}[/]" if result else ""))
    collected = _collected(paths)
    rows = collected["artifacts"]
    for row in rows[:20]:
        where = f"  artifacts/{row['host']}/{row['path']}"
        link = row.get("link_to")
        console.line(f"{where} is a link to {link}, not copied" if link else f"{where}  {row['size']} bytes")
    if len(rows) > 20:
        console.line(f"  and {len(rows) - 20} more in {paths.artifacts_manifest.name}")
    if paths.report.is_file():
        console.line(f"  report: {paths.report}")
    if (size := collected[RECORDED]) is not None:
        console.line(f"  the bundle has {decimal(size)}")
