"""`ddp-play gc`: leftovers of runs on hosts, after a controller died or a host rebooted; `--yes` removes them."""

from __future__ import annotations

import getpass
from typing import Annotated, Any

import typer

from ddp_play.ansible.runner import AnsibleRunner
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import CheckFailed
from ddp_play.run.garbage_collection import Leftovers, ask_hosts, remove_leftovers


@options.with_ansible
def gc(
    *,
    inventory: options.Inventory = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove what is listed.")] = False,
    run: Annotated[str, typer.Option("--run", help="Only this run, even while it lives: its ranks are ended.")] = "",
    all_users: Annotated[bool, typer.Option("--all-users", help="What other users left, too.")] = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """List what ended runs of yours left on the hosts, and remove it with --yes. What lives, anywhere, is left alone.

    [bold]Examples[/]

      ddp-play gc -i inventory

      ddp-play gc -i inventory --yes

      ddp-play gc -i inventory --run calm-otter-123 --yes
    """
    with error_boundary():
        request = ansible.request(None, inventory)
        passwords = ansible.passwords()
        me = "" if all_users else getpass.getuser()
        found = ask_hosts(request, passwords, AnsibleRunner(), me=me, run=run)
        if as_json and not yes:
            console.as_json(_as_json(found))
            return
        _show(found)
        if not yes or found.empty:
            return
        left = remove_leftovers(request, passwords, AnsibleRunner(), found)
        if left:
            raise CheckFailed("could not remove:\n" + "\n".join(left))
        console.line("removed")


def _as_json(found: Leftovers) -> dict[str, Any]:
    return {
        "removable": found.removable,
        "containers": found.removable_containers,
        "left_alone": [{**row, "why": why} for row, why in found.others],
        "problems": found.problems,
    }


def _show(found: Leftovers) -> None:
    for host, why in sorted(found.problems.items()):
        console.error(f"{host}: {why}")
    for row in (*found.removable, *found.removable_containers):
        console.line(_words(row))
    for row, why in found.others:
        console.line(f"{_words(row)}: left alone, {why}")
    if found.empty:
        console.line("nothing left behind")
    else:
        console.note("remove it with --yes")


def _words(row: dict[str, Any]) -> str:
    whose = f"{row['inventory_host']}: run {row['run']} attempt {row['attempt']} of {row['owner'] or 'unknown'}"
    if "path" in row:
        return f"{whose} ({row['phase']}): {row['path']}"
    return f"{whose}: container {row['id'][:12]} ({row['state']})"
