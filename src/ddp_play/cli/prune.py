"""`ddp-play prune`: removal of old bundles from this machine."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from ddp_play.bundle.removal import record_of
from ddp_play.bundle.removal_plan import Rules, plan_removal
from ddp_play.bundle.run_lookup import all_runs
from ddp_play.cli import options
from ddp_play.cli.bundle_removal import Removal, conclude
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import UsageError
from ddp_play.planning.job_values import parse_seconds


def prune(
    *,
    keep: Annotated[int, typer.Option("--keep", min=0, help="The newest runs that stay.")] = 50,
    older_than: Annotated[str, typer.Option("--older-than", help="Age from which bundles go: 12h, 30d.")] = "30d",
    yes: Annotated[bool, typer.Option("--yes", help="Remove the listed bundles without a question.")] = False,
    dry: Annotated[bool, typer.Option("--dry-run", help="Only list them.")] = False,
    with_artifacts: Annotated[
        bool, typer.Option("--with-artifacts", help="Also bundles with artifacts, perhaps the only copy.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """Remove old bundles from this machine: those beyond the newest --keep that ended before --older-than.

    Lists them and asks; without a terminal and with --json it removes nothing unless --yes is given. Runs that never
    started go after a day. Live runs, runs with files still on hosts, and bundles with artifacts stay.

    [bold]Examples[/]

      ddp-play prune

      ddp-play prune --keep 200 --older-than 90d --yes
    """
    with error_boundary():
        if yes and dry:
            raise UsageError("--yes and --dry-run contradict each other", hint="give one of them")
        rules = Rules(keep, _seconds(older_than), with_artifacts=with_artifacts)
        records = [record_of(run) for run in all_runs()]
        removal = Removal.of(plan_removal(records, rules, now=time.time()), rules)
        conclude(removal, yes=yes, as_json=as_json, only_list=dry)


def _seconds(text: str) -> float:
    try:
        return float(parse_seconds(text))
    except ValueError as error:
        raise UsageError(f"--older-than: {error}") from None
