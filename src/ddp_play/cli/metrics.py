"""`ddp-play metrics`: a run's metrics and samples for TensorBoard and Prometheus."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ddp_play.bundle.prometheus_export import write_prometheus
from ddp_play.bundle.tensorboard_export import write_tensorboard
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.lost_supervisor import refuse_unattended
from ddp_play.cli.page_file import check_output, writing
from ddp_play.errors import UsageError
from ddp_play.run.engine_runs import find

if TYPE_CHECKING:
    from ddp_play.bundle.run_lookup import Run

SUFFIX = ".prom"


def metrics(
    run_id: options.RunId = "-",
    tensorboard: Annotated[Path | None, typer.Option("--tensorboard", help="New directory for event files.")] = None,
    prometheus: Annotated[
        Path | None, typer.Option("--prometheus", help="Text file for node_exporter, such as train.prom.")
    ] = None,
    every: Annotated[
        float,
        typer.Option("--every", min=0, help="Write the text file again after so many seconds until the run ends."),
    ] = 0,
) -> None:
    """Write a run's metrics and the samples of its hosts as event files or as a Prometheus text file.

    [bold]Examples[/]

      ddp-play metrics --tensorboard logs

      ddp-play metrics calm-otter-123 --prometheus /var/lib/prometheus/node-exporter/train.prom --every 15
    """
    with error_boundary():
        if tensorboard is None and prometheus is None:
            raise UsageError("nothing to write", hint="give --tensorboard DIRECTORY or --prometheus FILE")
        if every and prometheus is None:
            raise UsageError("--every belongs to --prometheus", hint="give --prometheus FILE")
        if prometheus is not None and prometheus.suffix != SUFFIX:
            hint = (
                f"--prometheus {prometheus.with_suffix(SUFFIX)}" if prometheus.name else f"--prometheus train{SUFFIX}"
            )
            raise UsageError(f"node_exporter reads no file but *{SUFFIX}: {prometheus}", hint=hint)
        if prometheus is not None:
            check_output(prometheus, example=f"train{SUFFIX}")
        try:
            _write(find(run_id), tensorboard, prometheus, every)
        except OSError as error:
            why = f"{error.filename or tensorboard or prometheus} cannot be written: {error.strerror or error}"
            raise UsageError(why, hint="name a place where you can write") from error


def _write(run: Run, tensorboard: Path | None, prometheus: Path | None, every: float) -> None:
    if tensorboard is not None:
        count = write_tensorboard(run.paths, tensorboard)
        console.line(f"{count} values in {tensorboard}; show them: tensorboard --logdir {tensorboard}")
    if prometheus is not None:
        _write_until_the_end(run.paths.run_id, prometheus, every)
        console.line(f"the newest numbers are in {prometheus}")


def _write_until_the_end(run_id: str, path: Path, every_s: float) -> None:
    while True:
        run = find(run_id)
        with writing(path):  # an error names the temporary file of prometheus-client
            write_prometheus(run, path)
        if not every_s or run.over:
            return
        refuse_unattended(run)
        time.sleep(every_s)
