"""`ddp-play rm`: removal of the bundles of named runs from this machine."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ddp_play.bundle.paths import RunPaths, runs_dir
from ddp_play.bundle.removal import is_new, never_began, record_of
from ddp_play.bundle.removal_plan import Rules, plan_removal
from ddp_play.bundle.run_lookup import load
from ddp_play.cli import options
from ddp_play.cli.bundle_removal import Removal, conclude
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import UsageError


def rm(
    runs: Annotated[list[str], typer.Argument(help="Ids of runs in full; `ddp-play ps --all` lists them.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the listed bundles without a question.")] = False,
    with_artifacts: Annotated[
        bool, typer.Option("--with-artifacts", help="Also bundles with artifacts, perhaps the only copy.")
    ] = False,
    force_uncollected: Annotated[
        bool, typer.Option("--force-uncollected", help="Also bundles of runs with files still on hosts.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Remove the bundles of runs from this machine: logs, results, metrics. Live runs are never removed.

    Lists them and asks; without a terminal and with --json it removes nothing unless --yes is given. A run that stays
    has its reason in the list, and the exit code is 1.

    [bold]Examples[/]

      ddp-play rm calm-otter-123

      ddp-play rm calm-otter-123 wise-yak-7 --with-artifacts --yes
    """
    with error_boundary():
        rules = Rules(with_artifacts=with_artifacts, with_uncollected=force_uncollected)
        known = [_known(name) for name in dict.fromkeys(runs)]
        records = [record_of(load(paths)) for paths in known if not never_began(paths.root)]
        removal = Removal.of(plan_removal(records, rules, now=time.time()), rules)
        conclude(removal, yes=yes, as_json=as_json)
        if removal.plan.kept or removal.unanswered:
            raise typer.Exit(1)


def _known(name: str) -> RunPaths:
    """The run of exactly this id: a beginning that fits one run today may fit another one tomorrow."""
    paths = RunPaths.of(name)
    if never_began(paths.root) and is_new(paths.root):
        raise UsageError(f"run {name} is just starting", hint="if its start was killed, try again in a minute")
    if not paths.root.is_dir() and not paths.root.is_symlink():
        raise UsageError(f"no run {name} under {runs_dir()}", hint="give the whole id, as ddp-play ps --all lists it")
    return paths
