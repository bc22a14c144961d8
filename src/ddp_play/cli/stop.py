"""`ddp-play stop`: end of a run, gracefully or, with --now, at once."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ddp_play.bundle.run_lookup import Run
from ddp_play.cli import console, live_view, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.lost_supervisor import lost_supervisor
from ddp_play.cli.run import request_stop
from ddp_play.cli.run_passwords import ask_passwords_of
from ddp_play.run.engine_runs import cancel_pending, find, load
from ddp_play.run.run_hooks import webhook_problem
from ddp_play.run.submission import start_background, take_over_problem


def stop(
    run_id: options.RunId,
    now: Annotated[bool, typer.Option("--now", help="Send SIGKILL at once, without signal and grace period.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Return when the run is over.")] = True,
    as_json: options.Json = False,
    ask_pass: options.AskPass = False,
    ask_become_pass: options.AskBecomePass = False,
) -> None:
    """Stop all ranks of a run on all hosts: ddp_job_signal, ddp_job_grace, SIGKILL; then collect and clean up.

    [bold]Examples[/]

      ddp-play stop calm-otter-123

      ddp-play stop calm-otter-123 --now --json
    """
    with error_boundary():
        run = find(run_id)
        if run.over:
            console.note(f"run {run.paths.run_id} is over already: {run.status}")
            _as_json(run, as_json)
            return
        lost = "" if run.attended else webhook_problem(run.paths)
        passwords = None
        if not run.attended:  # an error here leaves the run as it is
            passwords = ask_passwords_of(run.paths, "stop", ssh=ask_pass, become=ask_become_pass)
        request_stop(run.paths, now=now, reason="stopped with ddp-play stop")
        if not cancel_pending(run) and passwords is not None:
            console.note_if_any(f"warning: {lost}" if lost else "")
            console.note_if_any(start_background(run.paths, passwords, take_over=True))
        if not wait:
            _as_json(load(run.paths), as_json)
            return
        while not load(run.paths).over and load(run.paths).attended:
            time.sleep(0.1)
        ended = load(run.paths)
        if not ended.status.final:
            raise take_over_problem(run.paths) or lost_supervisor(ended)
        live_view.show_end(ended)
        _as_json(ended, as_json)


def _as_json(run: Run, requested: bool) -> None:
    if requested:
        console.as_json(run.document)
