"""`ddp-play gc`: list and removal of what runs left on hosts after a controller died or a host rebooted."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.bundle.controller_user import user_name
from ddp_play.bundle.network_traffic import bytes_text
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.cli.unasked_hosts import refuse_unasked
from ddp_play.errors import CheckFailed, UsageError
from ddp_play.run.garbage_collection import Leftovers, find_leftovers, remove_leftovers

OnlyRun = Annotated[str | None, typer.Option("--run", help="Only this run, even if it is alive: its ranks are ended.")]


@options.with_ansible
def gc(
    *,
    inventory: options.Inventory = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove the listed leftovers.")] = False,
    run: OnlyRun = None,
    all_users: Annotated[bool, typer.Option("--all-users", help="Also leftovers of other users' runs.")] = False,
    sources: Annotated[
        bool, typer.Option("--sources", help="Also the sources that hosts keep, so that later runs send less.")
    ] = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """List what your ended runs left on the hosts, and remove it with --yes. Live runs are not touched.

    If a run's files were perhaps not collected, gc keeps them until you name the run with --run. The exit code is 69
    if a host could not be asked.

    [bold]Examples[/]

      ddp-play gc -i inventory

      ddp-play gc -i inventory --yes

      ddp-play gc -i inventory --run calm-otter-123 --yes
    """
    with error_boundary():
        request = ansible.request_for_hosts(inventory)
        passwords = ansible.passwords()
        me = "" if all_users else user_name()
        found = find_leftovers(request, passwords, AnsibleRunner(), me=me, run=_named(run))
        _show(found, yes=yes, sources=sources)
        removes = yes and not (found.empty and not (sources and found.sources))
        left = remove_leftovers(request, passwords, AnsibleRunner(), found, sources=sources) if removes else []
        if as_json:
            console.as_json({**_as_json(found), "removed": removes and not left, "not_removed": left})
        if left:
            raise CheckFailed("could not remove:\n" + "\n".join(left))
        if removes:
            console.line("removed")
        refuse_unasked(found.problems)


def _named(run: str | None) -> str:
    """The run of --run; empty for all. UsageError if it is empty, as of an unset variable of a shell."""
    if run == "":
        raise UsageError("--run is empty", hint="give the id of a run, or leave out --run")
    return run or ""


def _as_json(found: Leftovers) -> dict[str, Any]:
    return {
        "removable": found.removable,
        "containers": found.removable_containers,
        "left_alone": [{**row, "why": why} for row, why in found.others],
        "problems": found.problems,
        "sources_bytes": found.sources,
    }


def _show(found: Leftovers, *, yes: bool = False, sources: bool = False) -> None:
    for row in (*found.removable, *found.removable_containers):
        console.line(_description(row))
    for row, why in found.others:
        console.line(f"{_description(row)}: left alone, {why}")
    for host, num_bytes in found.sources.items():
        kept = "" if sources else "; --sources removes them"
        console.line(f"{host}: {bytes_text(num_bytes)} of sources, kept so that later runs send less{kept}")
    if found.empty:
        console.line("no leftovers of runs" + (" on the hosts that answered" if found.problems else ""))
    if not yes and not (found.empty and not (sources and found.sources)):
        console.note("repeat the command with --yes to remove them")


def _description(row: dict[str, Any]) -> str:
    run_text = f"{row['inventory_host']}: run {row['run']} attempt {row['attempt']} of {row['owner'] or 'unknown'}"
    if "path" in row:
        phase = "" if row["phase"] == "unknown" else f" ({row['phase']})"  # what was kept by a cleanup has none
        return f"{run_text}{phase}: {row['path']}"
    return f"{run_text}: container {row['id'][:12]} ({row['state']})"
