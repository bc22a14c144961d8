"""`ddp-play provision`, `verify` and `deprovision`: hosts become nodes, prove it, and are given back."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from ddp_play.cli import console, options
from ddp_play.cli.boundary import error_boundary
from ddp_play.cli.phaseview import show_plan, show_report, watching
from ddp_play.collection import collection_root
from ddp_play.errors import UsageError
from ddp_play.playbook import AnsibleRunner, Passwords, PlaybookRequest
from ddp_play.workflows.provision import Planned, Report, plan_playbook, run_playbook

Tags = Annotated[list[str] | None, typer.Option("-t", "--tags", help="Only these roles: docker_engine,nfs_client.")]


def provision(
    inventory: options.Inventory = None,
    tags: Tags = None,
    check: Annotated[bool, typer.Option("--check", help="Only say what would change.")] = False,
    as_json: options.Json = False,
    limit: options.Limit = "",
    extra_vars: options.ExtraVars = None,
    user: options.User = "",
    private_key: options.PrivateKey = "",
    ask_pass: options.AskPass = False,
    become: options.Become = False,
    ask_become_pass: options.AskBecomePass = False,
    vault_password_file: options.VaultPasswordFile = None,
    vault_id: options.VaultId = None,
    ask_vault_pass: options.AskVaultPass = False,
    verbose: options.Verbose = 0,
) -> None:
    """Turn hosts into nodes that can run ranks; a second time it changes nothing.

    The plan comes first, then a line for every host and role, then a table with reasons and remedies.

    A host that fails is left behind, and the others go on. Exit codes: 0 all done, 1 a role failed,

    64 the inventory does not fit the roles (nothing was touched), 69 hosts could not be reached.

    [bold]Examples[/]

      ddp-play provision -i inventory --check

      ddp-play provision -i inventory

      ddp-play provision -i inventory --limit newhost -K

      ddp-play provision -i inventory --tags docker_engine --json
    """
    with error_boundary():
        request = options.make_request(
            _playbook("provision"),
            inventory,
            limit=limit,
            extra_vars=extra_vars,
            user=user,
            private_key=private_key,
            become=become,
            vault_password_file=vault_password_file,
            vault_id=vault_id,
            verbose=verbose,
        )
        if check:
            request = dataclasses.replace(request, options=(*request.options, "--check"))
        passwords = options.ask_passwords(connection=ask_pass, become=ask_become_pass, vault=ask_vault_pass)
        _carry_out(_planned(request, "provision", passwords, tags), passwords, as_json=as_json)


def verify(
    inventory: options.Inventory = None,
    tags: Tags = None,
    as_json: options.Json = False,
    limit: options.Limit = "",
    extra_vars: options.ExtraVars = None,
    user: options.User = "",
    private_key: options.PrivateKey = "",
    ask_pass: options.AskPass = False,
    become: options.Become = False,
    ask_become_pass: options.AskBecomePass = False,
    vault_password_file: options.VaultPasswordFile = None,
    vault_id: options.VaultId = None,
    ask_vault_pass: options.AskVaultPass = False,
    verbose: options.Verbose = 0,
) -> None:
    """Prove on every host what `provision` promises; changes nothing.

    [bold]Examples[/]

      ddp-play verify -i inventory

      ddp-play verify -i inventory --limit gpu03 --tags docker_engine
    """
    with error_boundary():
        request = options.make_request(
            _playbook("verify"),
            inventory,
            limit=limit,
            extra_vars=extra_vars,
            user=user,
            private_key=private_key,
            become=become,
            vault_password_file=vault_password_file,
            vault_id=vault_id,
            verbose=verbose,
        )
        passwords = options.ask_passwords(connection=ask_pass, become=ask_become_pass, vault=ask_vault_pass)
        _carry_out(_planned(request, "verify", passwords, tags), passwords, as_json=as_json)


def deprovision(
    inventory: options.Inventory = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without it only the plan is shown.")] = False,
    tags: Tags = None,
    as_json: options.Json = False,
    limit: options.Limit = "",
    extra_vars: options.ExtraVars = None,
    user: options.User = "",
    private_key: options.PrivateKey = "",
    become: options.Become = False,
    ask_become_pass: options.AskBecomePass = False,
    vault_password_file: options.VaultPasswordFile = None,
    ask_vault_pass: options.AskVaultPass = False,
) -> None:
    """Take our files, packages, mounts and holds off the hosts of --limit, and say what stays there.

    [bold]Examples[/]

      ddp-play deprovision -i inventory --limit gpu03

      ddp-play deprovision -i inventory --limit gpu03 --yes
    """
    with error_boundary():
        if not limit:
            raise UsageError("which hosts? no --limit was given", hint="--limit HOST; --limit all takes every host")
        request = options.make_request(
            _playbook("deprovision"),
            inventory,
            limit=limit,
            extra_vars=extra_vars,
            user=user,
            private_key=private_key,
            become=become,
            vault_password_file=vault_password_file,
        )
        passwords = options.ask_passwords(connection=False, become=ask_become_pass, vault=ask_vault_pass)
        planned = _planned(request, "deprovision", passwords, tags)
        if not yes:
            show_plan(planned)
            names = ", ".join(planned.hosts)
            raise UsageError(f"this takes everything above off {names} again", hint="say --yes to do it")
        _carry_out(planned, passwords, as_json=as_json)


def _playbook(name: str) -> str:
    """Named, so that without -i Ansible's own configuration says which hosts, never the demo."""
    return str(collection_root() / "playbooks" / f"{name}.yml")


def _planned(request: PlaybookRequest, name: str, passwords: Passwords, tags: list[str] | None) -> Planned:
    wanted = tuple(word for value in tags or () for word in value.split(",") if word)
    return plan_playbook(dataclasses.replace(request, tags=wanted), name, passwords)


def _carry_out(planned: Planned, passwords: Passwords, *, as_json: bool) -> None:
    show_plan(planned)
    with watching() as view:
        report = run_playbook(planned, passwords, AnsibleRunner(), view)
    _tell(planned, report, as_json=as_json)


def _tell(planned: Planned, report: Report, *, as_json: bool) -> None:
    if as_json:
        console.as_json({**report.to_json(), "phases": [phase.to_json() for phase in planned.phases]})
    elif report.cells:
        show_report(report)
    error = report.error()
    if error is not None:
        raise error
