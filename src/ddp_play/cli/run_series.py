"""Series of runs, one per backend and device, for `collectives` and `bench`, and the options that both have."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.bundle.paths import RUN_ID, check_run_id, runs_dir, write_bytes, write_json
from ddp_play.bundle.run_ids import new_run_id
from ddp_play.cli import console, options
from ddp_play.cli.run import stop_interrupted, stop_on_term, watch
from ddp_play.cli.run_start import start_run
from ddp_play.errors import Interrupted
from ddp_play.measuring.measurement_runs import FinishedRun, NextRun, as_one, measurement_variants, request_for
from ddp_play.run.dry_run import dry_run

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.ansible.runner import Passwords, PlaybookRequest
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.measuring.measurement_runs import Variant

Backends = Annotated[
    list[str] | None,
    typer.Option("--backend", help="gloo, nccl or mpi; repeatable. By default all that fit the hosts."),
]
Name = Annotated[str, typer.Option("--name", help="Beginning of the runs' ids; by default a new one is drawn.")]


def no_next_run(_runs: list[FinishedRun]) -> NextRun | None:
    """No variant has a second run."""
    return None


def run_variants(
    verb: str,
    inventory: list[str] | None,
    ansible: options.Ansible,
    command: tuple[str, ...],
    *,
    backends: tuple[str, ...],
    name: str,
    optional_backends: tuple[str, ...] = (),
    next_run: Callable[[list[FinishedRun]], NextRun | None] = no_next_run,
) -> list[FinishedRun]:
    """Run the command once per backend and device that the hosts allow. An interrupted run ends the series.

    `next_run` decides from the runs of a variant whether another one goes on after them.
    """
    request = ansible.request(str(collection_root() / "playbooks" / f"{verb}.yml"), inventory)
    passwords = ansible.passwords()
    variants = measurement_variants(
        dry_run(request, passwords, AnsibleRunner()), backends, optional_backends=optional_backends
    )
    base = check_run_id(name) if name else new_run_id(runs_dir())
    stop_on_term()
    start = partial(_run_once, verb, request, passwords, command)
    finished = []
    for variant in variants:
        finished.append(run_variant(partial(start, variant), f"{base}-{variant.suffix}", next_run))
        if finished[-1].exit_code == Interrupted.exit_code:
            break
    return finished


def run_variant(
    start: Callable[[str, tuple[str, ...]], FinishedRun],
    name: str,
    next_run: Callable[[list[FinishedRun]], NextRun | None],
) -> FinishedRun:
    """Run one variant, with further runs named NAME-2, NAME-3, ... as long as `next_run` wants one."""
    runs = [start(name, ())]
    while (more := next_run(runs)) is not None:
        console.note(f"{runs[0].variant}: {more.reason}")
        runs.append(start(further_name(name, len(runs) + 1), more.arguments))
    return as_one(runs)


def further_name(name: str, number: int) -> str:
    """Name of a further run; an own one is drawn (empty) if this one is too long or taken."""
    found = f"{name}-{number}"
    return found if RUN_ID.fullmatch(found) and not (runs_dir() / found).exists() else ""


def _run_once(
    verb: str,
    request: PlaybookRequest,
    passwords: Passwords,
    command: tuple[str, ...],
    variant: Variant,
    name: str,
    more: tuple[str, ...],
) -> FinishedRun:
    """Start one run and follow it to its end. `more`: what its command has at its end."""
    words = (*command, *more)
    started = start_run(request_for(request, variant, words), passwords, name=name, output=None)
    if started.interrupted:
        stop_interrupted(started.paths)
    opening = partial(_note_variant, words=f"{verb} on {variant}")
    return FinishedRun(variant, started.paths, watch(started.paths, ranks="none", opening=opening))


def _note_variant(paths: RunPaths, *, words: str) -> None:
    console.note(f"run {paths.run_id}: {words}")


def write_to_bundles(finished: list[FinishedRun], name: str, document: Any, files: dict[str, bytes]) -> None:
    """Write document and files of the whole series into the bundle of each run."""
    for paths in (paths for finished_run in finished for paths in finished_run.bundles):
        write_json(paths.root / f"{name}.json", document)
        for file, content in files.items():
            write_bytes(paths.root / file, content)


def exit_code(finished: list[FinishedRun]) -> int:
    """First exit code that is not 0. Runs of optional backends that the ranks do not have do not count."""
    return next(
        (finished_run.exit_code for finished_run in finished if finished_run.exit_code and not finished_run.absent), 0
    )


def print_failures(finished: list[FinishedRun]) -> None:
    """Print the backends and devices without a result, or with a part of one, with the reason."""
    for finished_run in finished:
        if finished_run.failure:
            console.line(finished_run.failure, style="" if finished_run.absent else "bold red")


def bundle_line(finished: list[FinishedRun], files: str) -> str:
    """One line that names the files and the bundles that hold them."""
    roots = [paths.root for finished_run in finished for paths in finished_run.bundles]
    return f"{files} in {', '.join(map(str, roots))}"
