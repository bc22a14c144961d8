"""`ddp-play exec`: a command in a rank's container, or on the rank's host in the rank's directory."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from ddp_play.cli import options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.run.engine_runs import find
from ddp_play.run.exec_in_rank import exec_command


def execute(
    run_id: options.RunId,
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    rank: Annotated[int, typer.Option("--rank", help="Rank whose container or environment to use.")] = 0,
) -> None:
    """Run a command where a rank runs: in its container, or on its host with its environment.

    [bold]Examples[/]

      ddp-play exec calm-otter-123 --rank 3 -- nvidia-smi

      ddp-play exec calm-otter-123 -- sh
    """
    with error_boundary():
        argv = exec_command(find(run_id), rank, command, terminal=sys.stdin.isatty())
        os.execvp(argv[0], argv)  # noqa: S606 - the command replaces this process and keeps its terminal
