"""Assembles the verbs into the `ddp-play` command."""

from __future__ import annotations

import typer

from ddp_play.cli import lab

app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", pretty_exceptions_enable=False)


@app.callback()
def root() -> None:
    """From bare Linux hosts to a finished PyTorch DDP run, from one Ansible inventory."""


app.add_typer(lab.app, name="lab")


def main() -> None:
    """Entry point of the `ddp-play` script."""
    app()
