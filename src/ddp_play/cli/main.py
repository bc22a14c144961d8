"""The `ddp-play` command, assembled from its verbs."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from ddp_play.cli import (
    attach,
    bench,
    collectives,
    console,
    execute,
    gc,
    image,
    init,
    inventory,
    lab,
    logs,
    plan,
    provision,
    ps,
    reboot,
    results,
    run,
    stop,
)

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)

HOSTS = "Hosts"
app.command(rich_help_panel=HOSTS)(init.init)
app.add_typer(inventory.app, name="inventory", rich_help_panel=HOSTS)
app.command(rich_help_panel=HOSTS)(provision.provision)
app.command(rich_help_panel=HOSTS)(provision.verify)
app.command(rich_help_panel=HOSTS)(provision.deprovision)
app.command(rich_help_panel=HOSTS)(reboot.reboot)

RUNS = "Runs"
app.command(rich_help_panel="Jobs")(run.run)
app.command(rich_help_panel="Jobs")(plan.plan)
MEASURE = "Measurements"
app.command(rich_help_panel=MEASURE)(collectives.collectives)
app.command(rich_help_panel=MEASURE)(bench.bench)
app.command(rich_help_panel=RUNS)(ps.ps)
app.command(rich_help_panel=RUNS)(logs.logs)
app.command(rich_help_panel=RUNS)(attach.attach)
app.command("exec", rich_help_panel=RUNS)(execute.execute)
app.command(rich_help_panel=RUNS)(stop.stop)
app.command(rich_help_panel=RUNS)(results.results)
app.command(rich_help_panel=RUNS)(gc.gc)
app.add_typer(lab.app, name="lab", rich_help_panel="Rehearsal")
app.add_typer(image.app, name="image", rich_help_panel="Rehearsal")


def _show_version(value: bool) -> None:
    if value:
        console.line(f"ddp-play {version('ddp-play')}")
        raise typer.Exit


@app.callback()
def root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """From bare Linux hosts to a finished PyTorch DDP run, from one Ansible inventory.

    Exit codes: 0 done, after launch the first failing rank's own code (128+N for signals),
    1 a check or a playbook failed, 64 usage, 69 a host is unreachable or not ready, 70 ddp-play
    itself failed, 75 busy, 124 a time limit ended the job, 130 interrupted.
    --json names the class of the error.
    """


def main() -> None:
    """Entry point of the `ddp-play` script."""
    app()
