"""`ddp-play gc`: what a dead controller or a rebooted host left behind; lists first, removes with --yes."""

from __future__ import annotations

from typing import Annotated

import typer

from ddp_play.cli import console, options
from ddp_play.cli.boundary import error_boundary
from ddp_play.errors import CheckFailed
from ddp_play.playbook import AnsibleRunner
from ddp_play.workflows.sweep import Leftovers, ask_hosts, remove_leftovers


@options.with_ansible
def gc(
    *,
    inventory: options.Inventory = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove what is listed.")] = False,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """List what ended runs left on the hosts, and remove it with --yes. Runs whose guard lives are never touched.

    [bold]Examples[/]

      ddp-play gc -i inventory

      ddp-play gc -i inventory --yes
    """
    with error_boundary():
        request = ansible.request(None, inventory)
        passwords = ansible.passwords()
        found = ask_hosts(request, passwords, AnsibleRunner())
        if as_json and not yes:
            console.as_json({"removable": found.removable, "containers": found.containers, "problems": found.problems})
            return
        _show(found)
        if not yes or found.empty:
            return
        left = remove_leftovers(request, passwords, AnsibleRunner(), found)
        if left:
            raise CheckFailed("could not remove:\n" + "\n".join(left))
        console.line("removed")


def _show(found: Leftovers) -> None:
    for host, why in sorted(found.problems.items()):
        console.error(f"{host}: {why}")
    for row in found.removable:
        console.line(f"{row['inventory_host']}: {row['run']} attempt {row['attempt']} ({row['phase']}) {row['path']}")
    for row in found.containers:
        console.line(f"{row['inventory_host']}: container {row['id'][:12]} of run {row['run']} ({row['state']})")
    if found.empty:
        console.line("nothing left behind")
    else:
        console.note("remove it with --yes")
