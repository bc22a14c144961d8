"""A series of runs, one per backend and device, for `collectives` and `bench`; and their shared options."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.bundle.paths import check_run_id, home, write_bytes, write_json
from ddp_play.bundle.run_ids import new_run_id
from ddp_play.cli import console, options
from ddp_play.cli.run import stop_on_term, watch
from ddp_play.errors import Interrupted, UsageError
from ddp_play.measuring.measurement_runs import Finished, request_for, ways_to_try
from ddp_play.run.dry_run import dry_run
from ddp_play.run.submission import create_run, start_background

Backends = Annotated[
    list[str] | None, typer.Option("--backend", help="gloo, nccl or mpi; repeat it. Otherwise all that fit the hosts.")
]
Name = Annotated[str, typer.Option("--name", help="Beginning of the runs' ids; otherwise a memorable one is made.")]


def run_everywhere(
    verb: str,
    inventory: list[str] | None,
    ansible: options.Ansible,
    command: tuple[str, ...],
    *,
    backends: tuple[str, ...],
    name: str,
    also: tuple[str, ...] = (),
) -> list[Finished]:
    """One run per backend and device that the hosts allow, each with its bundle; an interrupted one is the last."""
    if not inventory:
        raise UsageError("which hosts? no -i was given", hint=f"ddp-play {verb} -i INVENTORY")
    request = ansible.request(str(collection_root() / "playbooks" / f"{verb}.yml"), inventory)
    passwords = ansible.passwords()
    ways = ways_to_try(dry_run(request, passwords, AnsibleRunner()), backends, also=also)
    base = check_run_id(name) if name else new_run_id(home() / "runs")
    stop_on_term()
    finished = []
    for way in ways:
        paths = create_run(request_for(request, way, command), name=f"{base}-{way.suffix}", output=None, argv=sys.argv)
        start_background(paths, passwords)
        console.note(f"run {paths.run_id}: {verb} on {way}")
        code = watch(paths, ranks="none")
        finished.append(Finished(way, paths, code))
        if code == Interrupted.exit_code:
            break
    return finished


def keep(finished: list[Finished], name: str, document: Any, files: dict[str, bytes]) -> None:
    """Write the document and files of the whole series into every bundle of it."""
    for one in finished:
        write_json(one.paths.root / f"{name}.json", document)
        for file, content in files.items():
            write_bytes(one.paths.root / file, content)


def exit_code(finished: list[Finished]) -> int:
    """The first run's own code that is not 0: a rank's, or that of hosts that were not ready."""
    return next((one.exit_code for one in finished if one.exit_code and not one.absent), 0)


def say_failures(finished: list[Finished]) -> None:
    """Print the backends and devices without a result, with the reason of the run."""
    for one in finished:
        if one.absent:
            console.line(f"{one.way}: not available here: {one.message}")
        elif not one.result:
            console.line(f"{one.way}: no result: {one.message or f'exit code {one.exit_code}'}", style="bold red")


def bundle_line(finished: list[Finished], files: str) -> str:
    """A line with the bundles that have the files."""
    roots = [one.paths.root for one in finished]
    return f"{files} in {', '.join(str(Path(root)) for root in roots)}"
