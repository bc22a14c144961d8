"""`ddp-play attach`: live view of a detached run, and takeover of a run whose supervisor died."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from ddp_play.bundle.event_texts import event_lines
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.run import print_end, watch
from ddp_play.cli.run_passwords import ask_passwords_of
from ddp_play.cli.shown_ranks import refuse_unknown_ranks
from ddp_play.errors import DiskFull
from ddp_play.planning.short_lists import short_list
from ddp_play.run.attempt_assignment import assignment_from_bundle
from ddp_play.run.engine_runs import find
from ddp_play.run.left_files import ARTIFACTS_MAX_MIB
from ddp_play.run.lost_host_files import collect_uncollected
from ddp_play.run.run_hooks import webhook_problem
from ddp_play.run.submission import restart_problem, start_background
from ddp_play.run.waiting_files import uncollected, waiting_files, worth_asking

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.ansible.runner import Passwords
    from ddp_play.bundle.run_lookup import Run


MaxMib = Annotated[
    int | None,
    typer.Option(
        ARTIFACTS_MAX_MIB,
        min=1,
        metavar="MIB",
        help="A higher limit of each host's artifacts than ddp_job_artifacts_max_mib, for a run that has ended: "
        "hosts keep what exceeds it.",
        show_default=False,
    ),
]


def attach(
    run_id: options.RunId = "-",
    ranks: options.Ranks = "0",
    artifacts_max_mib: MaxMib = None,
    plain: options.Plain = False,
    as_json: options.Json = False,
    ask_pass: options.AskPass = False,
    ask_become_pass: options.AskBecomePass = False,
) -> None:
    """Watch a run to its end. If its supervisor died, start a new one, which continues from the hosts' state.

    If the run has ended, collect the files of hosts that were lost during it and are back, and with
    --artifacts-max-mib artifacts that exceeded the limit.

    [bold]Examples[/]

      ddp-play attach

      ddp-play attach calm-otter-123 --ranks all

      ddp-play attach calm-otter-123 --artifacts-max-mib 20480
    """
    with error_boundary():
        run = find(run_id)
        refuse_unknown_ranks(ranks, run.paths)
        if run.over and (run.allocation or not _disk_was_full(run)):
            ask = partial(ask_passwords_of, run.paths, "attach", ssh=ask_pass, become=ask_become_pass)
            _collect_what_waits(run, artifacts_max_mib or 0, ask)
            raise typer.Exit(print_end(find(run.paths.run_id), as_json=as_json))
        if artifacts_max_mib:
            console.note(f"{ARTIFACTS_MAX_MIB} is for a run that has ended: give this command again then")
        if not run.attended:
            passwords = ask_passwords_of(run.paths, "attach", ssh=ask_pass, become=ask_become_pass)
            console.note(f"run {run.paths.run_id} has no supervisor: starting a new one")
            for problem in filter(None, (restart_problem(run.paths), webhook_problem(run.paths))):
                console.note(f"warning: {problem}", style="bold yellow")
            console.note_if_any(start_background(run.paths, passwords, take_over=True))
        raise typer.Exit(watch(run.paths, ranks=ranks, as_json=as_json, joined=True, plain=plain))


def _disk_was_full(run: Run) -> bool:
    return bool(run.document.get("exit_class") == DiskFull.kind)


def _collect_what_waits(run: Run, limit_mib: int, ask: Callable[[], Passwords]) -> None:
    """Collect what hosts of an ended run still have, or say why nothing is collected.

    Without a limit: except from hosts that could only send the same again. What they keep is said with the run's end.
    """
    found = waiting_files(run.document)
    hosts = {host for _, host in worth_asking(found, limit_mib)}
    if run.allocation and (found or _disk_was_full(run)):
        console.note(_stay_on_hosts(run), style="bold yellow")
    elif hosts:
        _collect_from(hosts, run, limit_mib, ask())
    elif limit_mib:
        console.note("no host of the run has files that were not collected")


def _stay_on_hosts(run: Run) -> str:
    """Files on lost hosts that only an allocation led to: it is over, and no channel to them can be opened."""
    waiting = {host for _, host in uncollected(run.document)} or set(run.document.get("hosts") or ())
    hosts = short_list(sorted(waiting), 5)
    name, job = run.paths.run_id, f"{run.allocation.get('engine')} job {run.allocation.get('id')}"
    return (
        f"{hosts}: not collected, and {job}, through which it was reached, is over: its files are in runs/{name}.* of "
        f"ddp_state_dir there; ddp-play rm --force-uncollected {name} removes the bundle"
    )


def _collect_from(hosts: set[str], run: Run, limit_mib: int, passwords: Passwords) -> None:
    """Try these hosts, and say what came of it."""
    console.note(f"{short_list(sorted(hosts), 5)}: not all files were collected; trying again, Ctrl-C ends this")

    def told(num_bytes: int) -> None:
        for text, _ in event_lines({"type": "collected", "bytes": num_bytes}):
            console.note(text)

    for attempt, result in collect_uncollected(assignment_from_bundle(run.paths, passwords), limit_mib, told=told):
        for host in result.collected:
            which = "some files" if host in result.incomplete else "files"
            console.note(f"{host}: {which} of attempt {attempt} are in the bundle")
        for host in result.gone:
            console.note(f"{host}: has no files of attempt {attempt} any more")
        for host, why in sorted(result.away.items()):
            text = f"{host}: files of attempt {attempt} are not collected: {why}"
            console.note(f"{text}; ddp-play attach {run.paths.run_id} tries again", style="bold yellow")
