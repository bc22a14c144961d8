"""Options that several verbs share, and Ansible's own, passed through as they came."""

from __future__ import annotations

import getpass
import os
from pathlib import Path
from typing import Annotated

import typer

from ddp_play.collection import demo_inventory, demo_playbook
from ddp_play.errors import UsageError
from ddp_play.playbook import Passwords, PlaybookRequest

ANSIBLE = "Ansible's options"

Playbook = Annotated[str | None, typer.Argument(help="The job: a playbook with the role ddp.play.ddp_job.")]
Inventory = Annotated[
    list[str] | None,
    typer.Option("-i", "--inventory", help="Anything ansible takes: a file, a directory, a script, 'h1,h2,'."),
]
Limit = Annotated[str, typer.Option("-l", "--limit", help="Only these hosts.", rich_help_panel=ANSIBLE)]
ExtraVars = Annotated[
    list[str] | None,
    typer.Option("-e", "--extra-vars", help="k=v, JSON, or @file. No secrets: use a vault.", rich_help_panel=ANSIBLE),
]
User = Annotated[str, typer.Option("-u", "--user", help="Connect as this user.", rich_help_panel=ANSIBLE)]
PrivateKey = Annotated[
    str, typer.Option("--private-key", "--key-file", help="SSH key to use.", rich_help_panel=ANSIBLE)
]
AskPass = Annotated[bool, typer.Option("-k", "--ask-pass", help="Ask for the SSH password.", rich_help_panel=ANSIBLE)]
Become = Annotated[bool, typer.Option("-b", "--become", help="Become root on the hosts.", rich_help_panel=ANSIBLE)]
AskBecomePass = Annotated[
    bool, typer.Option("-K", "--ask-become-pass", help="Ask for the sudo password.", rich_help_panel=ANSIBLE)
]
VaultPasswordFile = Annotated[
    list[str] | None, typer.Option("--vault-password-file", help="File with it.", rich_help_panel=ANSIBLE)
]
VaultId = Annotated[list[str] | None, typer.Option("--vault-id", help="id@source.", rich_help_panel=ANSIBLE)]
AskVaultPass = Annotated[
    bool, typer.Option("-J", "--ask-vault-pass", help="Ask for the vault password.", rich_help_panel=ANSIBLE)
]
Verbose = Annotated[int, typer.Option("-v", "--verbose", count=True, help="-v to -vvvv.", rich_help_panel=ANSIBLE)]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable answer on stdout.")]
RunId = Annotated[str, typer.Argument(help="A run's id, or the beginning of it; `ddp-play ps` lists them.")]


def make_request(
    playbook: str | None,
    inventory: list[str] | None,
    *,
    limit: str = "",
    extra_vars: list[str] | None = None,
    user: str = "",
    private_key: str = "",
    become: bool = False,
    vault_password_file: list[str] | None = None,
    vault_id: list[str] | None = None,
    verbose: int = 0,
) -> PlaybookRequest:
    """The request for ansible-playbook; without playbook and inventory it is the demo's."""
    options: list[str] = []
    for flag, value in (("--limit", limit), ("--user", user), ("--private-key", private_key)):
        if value:
            options += [flag, value]
    for flag, values in (
        ("--extra-vars", extra_vars),
        ("--vault-password-file", vault_password_file),
        ("--vault-id", vault_id),
    ):
        options += [word for value in values or () for word in (flag, value)]
    if become:
        options.append("--become")
    if verbose:
        options.append("-" + "v" * verbose)
    path = Path(playbook) if playbook else demo_playbook()
    if not path.is_file():
        raise UsageError(f"no playbook {path}", hint="ddp-play run without arguments runs the demo")
    return PlaybookRequest(
        playbook=str(path.absolute()),
        inventory=_inventory(playbook, inventory),
        cwd=str(Path.cwd()),
        options=tuple(options),
    )


def _inventory(playbook: str | None, inventory: list[str] | None) -> tuple[str, ...]:
    """The given one; the demo's for the demo; else what ansible's own configuration says."""
    sources = tuple(inventory or ())
    for source in sources:
        if "," not in source and not Path(source).exists():
            raise UsageError(f"no inventory {source}", hint="a file, a directory, or host names with a comma: h1,h2,")
    if sources:
        return tuple(source if "," in source else str(Path(source).absolute()) for source in sources)
    if playbook is None:
        return (str(demo_inventory()),)
    if not os.environ.get("ANSIBLE_INVENTORY") and not os.environ.get("ANSIBLE_CONFIG") and not _has_ansible_cfg():
        raise UsageError("which hosts? no -i was given", hint="-i INVENTORY, or an inventory in ansible.cfg")
    return ()


def _has_ansible_cfg() -> bool:
    return any(path.is_file() for path in (Path("ansible.cfg"), Path("~/.ansible.cfg").expanduser()))


def ask_passwords(*, connection: bool, become: bool, vault: bool = False) -> Passwords:
    """Prompt for what was asked for; on no terminal the first line of standard input would be a secret in a log."""
    return Passwords(
        connection=getpass.getpass("SSH password: ") if connection else "",
        become=getpass.getpass("BECOME password: ") if become else "",
        vault=getpass.getpass("Vault password: ") if vault else "",
    )
