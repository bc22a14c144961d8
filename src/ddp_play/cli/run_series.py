"""Series of runs, one per backend and device, for `collectives` and `bench`, and the options that both have."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.bundle.paths import check_run_id, runs_dir, write_bytes, write_json
from ddp_play.bundle.run_ids import new_run_id
from ddp_play.cli import console, options
from ddp_play.cli.run import stop_on_term, watch
from ddp_play.errors import Interrupted, UsageError
from ddp_play.measuring.measurement_runs import FinishedRun, measurement_variants, request_for
from ddp_play.run.dry_run import dry_run
from ddp_play.run.submission import create_run, start_background

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths

Backends = Annotated[
    list[str] | None,
    typer.Option("--backend", help="gloo, nccl or mpi; repeatable. By default all that fit the hosts."),
]
Name = Annotated[str, typer.Option("--name", help="Beginning of the runs' ids; by default a new one is drawn.")]


def run_variants(
    verb: str,
    inventory: list[str] | None,
    ansible: options.Ansible,
    command: tuple[str, ...],
    *,
    backends: tuple[str, ...],
    name: str,
    optional_backends: tuple[str, ...] = (),
) -> list[FinishedRun]:
    """Run the command once per backend and device that the hosts allow. An interrupted run ends the series."""
    if not inventory:
        raise UsageError("no inventory: -i was not given", hint=f"ddp-play {verb} -i INVENTORY")
    request = ansible.request(str(collection_root() / "playbooks" / f"{verb}.yml"), inventory)
    passwords = ansible.passwords()
    variants = measurement_variants(
        dry_run(request, passwords, AnsibleRunner()), backends, optional_backends=optional_backends
    )
    base = check_run_id(name) if name else new_run_id(runs_dir())
    stop_on_term()
    finished = []
    for variant in variants:
        paths = create_run(
            request_for(request, variant, command), name=f"{base}-{variant.suffix}", output=None, argv=sys.argv
        )
        console.note_if_any(start_background(paths, passwords))
        opening = partial(_note_variant, words=f"{verb} on {variant}")
        code = watch(paths, ranks="none", opening=opening)
        finished.append(FinishedRun(variant, paths, code))
        if code == Interrupted.exit_code:
            break
    return finished


def _note_variant(paths: RunPaths, *, words: str) -> None:
    console.note(f"run {paths.run_id}: {words}")


def write_to_bundles(finished: list[FinishedRun], name: str, document: Any, files: dict[str, bytes]) -> None:
    """Write document and files of the whole series into the bundle of each run."""
    for finished_run in finished:
        write_json(finished_run.paths.root / f"{name}.json", document)
        for file, content in files.items():
            write_bytes(finished_run.paths.root / file, content)


def exit_code(finished: list[FinishedRun]) -> int:
    """First exit code that is not 0. Runs of optional backends that the ranks do not have do not count."""
    return next(
        (finished_run.exit_code for finished_run in finished if finished_run.exit_code and not finished_run.absent), 0
    )


def print_failures(finished: list[FinishedRun]) -> None:
    """Print the backends and devices without a result, with the reason."""
    for finished_run in finished:
        if finished_run.absent:
            console.line(f"{finished_run.variant}: not available here: {finished_run.message}")
        elif not finished_run.result:
            console.line(
                f"{finished_run.variant}: no result: {finished_run.message or f'exit code {finished_run.exit_code}'}",
                style="bold red",
            )


def bundle_line(finished: list[FinishedRun], files: str) -> str:
    """One line that names the files and the bundles that hold them."""
    roots = [finished_run.paths.root for finished_run in finished]
    return f"{files} in {', '.join(str(Path(root)) for root in roots)}"
