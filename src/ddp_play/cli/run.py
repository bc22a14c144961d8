"""`ddp-play run`: start of a job and its live view; Ctrl-C and the stop request, also for other verbs."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ddp_play.ansible.plugin_variables import WAIT_ENV
from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.bundle.run_lookup import Run, load
from ddp_play.cli import console, engine_start, live_view, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.lost_supervisor import lost_supervisor
from ddp_play.cli.run_start import Started, start_run
from ddp_play.cli.run_view import RunView, open_run_view
from ddp_play.cli.shown_ranks import check_form
from ddp_play.errors import Interrupted, UsageError
from ddp_play.planning.job_values import parse_seconds
from ddp_play.run.submission import take_over_problem


@options.with_ansible
@engine_start.with_engine
def run(
    *,
    playbook: options.Playbook = None,
    inventory: options.Inventory = None,
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Return at once; the run goes on.")] = False,
    name: Annotated[str, typer.Option("--name", help="The run's id; by default a new one is drawn.")] = "",
    output: Annotated[Path | None, typer.Option("--output", help="Symbolic link to the bundle to create.")] = None,
    ranks: options.Ranks = "0",
    plain: options.Plain = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait while other runs hold the slots.")] = False,
    wait_at_most: Annotated[str, typer.Option("--wait-at-most", help="Wait no longer than 90s, 10m, 2h.")] = "",
    dry: Annotated[bool, typer.Option("--dry-run", help="Only print the plan.")] = False,
    as_json: options.Json = False,
    engine: engine_start.EngineOptions,
    ansible: options.Ansible,
) -> None:
    """Run a job on all its hosts and collect the results.

    Without arguments it trains the bundled example: two ranks on this machine.

    [bold]Examples[/]

      ddp-play run                                  the demo

      ddp-play run train.yml -i inventory           a job

      ddp-play run train.yml -i inventory -l gpu03 -e ddp_job_image=team/train:2

      ddp-play run train.yml -i inventory -d --name night-1; ddp-play attach night-1

      ddp-play run train.yml -i inventory --wait    wait while other runs hold the slots
    """
    with error_boundary():
        _check(engine, ansible, dry=dry, wait=wait or bool(wait_at_most), ranks=ranks)
        if dry:
            _show_dry_plan(playbook, inventory, ansible, as_json=as_json)
            return
        stop_on_term()
        started = _controller(engine, wait, wait_at_most).submit(playbook, inventory, ansible, name=name, output=output)
        _print_id_or_watch(started, detach=detach, ranks=ranks, as_json=as_json, plain=plain)


def _check(engine: engine_start.EngineOptions, ansible: options.Ansible, *, dry: bool, wait: bool, ranks: str) -> None:
    """UsageError for options that cannot be meant so."""
    check_form(ranks)
    engine.check(ansible, dry=dry, wait=wait)


def _controller(
    engine: engine_start.EngineOptions, wait: bool, wait_at_most: str
) -> _Here | engine_start.EngineOptions:
    """Where the controller of the run will be."""
    return engine if engine.allocates else _Here(wait, wait_at_most)


def _show_dry_plan(
    playbook: str | None, inventory: list[str] | None, ansible: options.Ansible, *, as_json: bool
) -> None:
    from ddp_play.cli.plan import show_planned  # noqa: PLC0415 - the modules of planning take 0.05 s

    show_planned(playbook, inventory, ansible, as_json=as_json)


@dataclass(frozen=True, slots=True)
class _Here:
    """A run whose controller is this machine; whether and how long it waits for slots."""

    wait: bool
    wait_at_most: str

    def submit(
        self,
        playbook: str | None,
        inventory: list[str] | None,
        ansible: options.Ansible,
        *,
        name: str,
        output: Path | None,
    ) -> Started:
        """Start the run's background process."""
        request, passwords = ansible.request(playbook, inventory), ansible.passwords()
        if self.wait or self.wait_at_most:
            request.environment[WAIT_ENV] = _seconds_to_wait(self.wait_at_most)
        return start_run(request, passwords, name=name, output=output)


def _print_id_or_watch(started: Started, *, detach: bool, ranks: str, as_json: bool, plain: bool) -> None:
    """Print the run's id if detached; otherwise watch the run to its end and exit with its code."""
    paths = started.paths
    if detach and not started.interrupted:
        _note_allocation(paths)
        _print_detached(paths, as_json=as_json)
        return
    if started.interrupted:
        stop_interrupted(paths)
    raise typer.Exit(watch(paths, ranks=ranks, as_json=as_json, plain=plain, opening=_note_run))


def stop_interrupted(paths: RunPaths) -> None:
    """Ask the supervisor to end a run that was interrupted while it was started."""
    with contextlib.suppress(Interrupted):  # it is over: the view shows how
        request_stop(paths, now=False, reason="interrupted with Ctrl-C")


def _note_run(paths: RunPaths) -> None:
    _note_allocation(paths)
    console.note(f"run {paths.run_id}: {read_json(paths.run)['request']['playbook']}")


def _note_allocation(paths: RunPaths) -> None:
    if row := read_json(paths.allocation):
        console.note(f"{row['engine']} job {row['id']}")


def stop_on_term() -> None:
    """Handle SIGTERM like Ctrl-C: a CI system that cancels a job sends SIGTERM, and the run should stop."""
    signal.signal(signal.SIGTERM, _raise_keyboard_interrupt)


def _seconds_to_wait(at_most: str) -> str:
    try:
        return str(float(parse_seconds(at_most))) if at_most else "inf"
    except ValueError as error:
        raise UsageError(f"--wait-at-most: {error}") from None


def _raise_keyboard_interrupt(_signum: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _print_detached(paths: RunPaths, *, as_json: bool) -> None:
    if as_json:
        console.as_json({"run": paths.run_id, "bundle": str(paths.root)})
        return
    console.line(paths.run_id)
    console.note(f"ddp-play attach {paths.run_id}   ddp-play logs -f {paths.run_id}   ddp-play stop {paths.run_id}")


def _note_nothing(_paths: RunPaths) -> None:
    pass


def watch(
    paths: RunPaths,
    *,
    ranks: str,
    as_json: bool = False,
    joined: bool = False,
    plain: bool = False,
    opening: Callable[[RunPaths], None] = _note_nothing,
) -> int:
    """Follow a run to its end and return its exit code. `joined`: what has happened so far is not shown again.

    On a terminal the view is a screen, unless `plain`. `opening` prints what comes before it.

    The first Ctrl-C asks on a terminal whether to detach or to stop, where Ctrl-C means stop, and stops gracefully
    elsewhere. The next one stops without the grace period.
    """
    num_interrupts, lines = 0, plain or as_json
    view: RunView | None = None
    while True:
        try:
            # also before the view and while it is loaded, which takes a part of a second
            opening(paths)
            opening = _note_nothing
            view = view or open_run_view(paths, ranks=ranks, joined=joined, plain=lines, stop=_stop_key(paths))
            run = view.follow()
        except KeyboardInterrupt:
            num_interrupts += 1
            if num_interrupts > 1 or not sys.stdin.isatty() or _user_wants_stop(paths):
                with contextlib.suppress(Interrupted):  # the run ended meanwhile: the view shows how
                    request_stop(paths, now=num_interrupts > 1, reason="interrupted with Ctrl-C")
                continue
            run = None
        if view is not None:
            view.close()
        if run is not None:
            return print_end(run, as_json=as_json)
        console.note(f"detached: ddp-play attach {paths.run_id}")
        if as_json:
            _print_detached(paths, as_json=True)
        return 0


def _stop_key(paths: RunPaths) -> Callable[[bool], None]:
    return lambda now: request_stop(paths, now=now, reason="stopped with the key s")


def print_end(run: Run, *, as_json: bool) -> int:
    """Print how the run ended and return its exit code. InternalError if it goes on without a supervisor."""
    if not run.status.final:
        if problem := take_over_problem(run.paths):
            raise problem
        raise lost_supervisor(run)
    code = live_view.show_end(run)
    if as_json:
        console.as_json(run.document)
    return code


def _user_wants_stop(paths: RunPaths) -> bool:
    """Ask whether to detach or to stop. `d` detaches; every other answer and Ctrl-C stop the run."""
    console.note(f"\n[d] detach, the run goes on   [s] stop {paths.run_id} gracefully", style="bold")
    try:
        answer = input("d/s> ").strip().lower()
    except (EOFError, KeyboardInterrupt):
        answer = "s"
    return not answer.startswith("d")


def request_stop(paths: RunPaths, *, now: bool, reason: str) -> None:
    """Write the stop request to the run's control directory, where its supervisor reads it."""
    if load(paths).over:
        raise Interrupted(f"run {paths.run_id} is over")
    write_json(paths.stop_request(now=now), {"reason": reason})
