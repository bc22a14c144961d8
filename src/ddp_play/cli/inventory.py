"""`ddp-play inventory check`: validation of an inventory without connections to its hosts."""

from __future__ import annotations

import typer

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.bundle.summary import counted
from ddp_play.cli import console, options
from ddp_play.cli.error_boundary import error_boundary
from ddp_play.errors import UsageError
from ddp_play.provisioning.inventory_check import check_inventory

app = typer.Typer(no_args_is_help=True, help="Check of an inventory before any host is touched.")


@app.callback()
def root() -> None:
    """Check of an inventory before any host is touched."""


@app.command()
@options.with_some_of_ansible("limit", "vault_password_file", "vault_id", "ask_vault_pass")
def check(
    *,
    inventory: options.Inventory = None,
    as_json: options.Json = False,
    ansible: options.Ansible,
) -> None:
    """Check an inventory: variable names and values by the roles' specs, groups, addresses. Contacts no host.

    All errors are listed with the host or the file and line. The exit code is 64 if there are any. Notes name subnets,
    servers and shared directories that hosts expect and nobody in the inventory provides; they do not count as errors.

    [bold]Examples[/]

      ddp-play inventory check -i inventory

      ddp-play inventory check -i inventory --json | jq .findings
    """
    with error_boundary():
        request = ansible.request(str(collection_root() / "playbooks" / "provision.yml"), inventory)
        passwords = ansible.passwords()
        checked = check_inventory(request, passwords)
        if as_json:
            console.as_json(checked.to_json())
        else:
            for finding in checked.findings:
                console.line(str(finding))
        if checked.errors:
            raise UsageError(f"{counted(len(checked.errors), 'error')} in the inventory; no host was touched")
        if not as_json:
            hosts, groups = counted(len(checked.inventory.hosts), "host"), len(checked.inventory.groups)
            notes = f", {counted(len(checked.notes), 'note')}" if checked.notes else ""
            console.line(f"no errors{notes}: {hosts} in {counted(groups, 'group')}")
