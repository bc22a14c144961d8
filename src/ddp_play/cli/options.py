"""Command line options that several verbs share, among them Ansible's, which reach Ansible unchanged."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ddp_play.ansible.installed_collection import demo_inventory, demo_playbook
from ddp_play.ansible.runner import PlaybookRequest
from ddp_play.bundle.controller_user import expanded
from ddp_play.cli.error_boundary import set_request
from ddp_play.cli.password_prompt import ask_passwords
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords

ANSIBLE = "Ansible's options"

Playbook = Annotated[str | None, typer.Argument(help="The job: a playbook with the role ddp.play.ddp_job.")]
Inventory = Annotated[
    list[str] | None,
    typer.Option("-i", "--inventory", help="Ansible inventory: a file, a directory, a script, 'h1,h2,'."),
]
AskPass = Annotated[bool, typer.Option("-k", "--ask-pass", help="Ask for the SSH password.", rich_help_panel=ANSIBLE)]
AskBecomePass = Annotated[
    bool, typer.Option("-K", "--ask-become-pass", help="Ask for the sudo password.", rich_help_panel=ANSIBLE)
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable answer on stdout.")]
Ranks = Annotated[
    str,
    typer.Option("--ranks", help="Ranks whose output to show: 0, 0,3 or all. A screen shows the last lines of all."),
]
Plain = Annotated[bool, typer.Option("--plain", help="Lines instead of a screen, as where there is no terminal.")]
Slurm = Annotated[
    list[str] | None, typer.Option("--slurm", help="KEY=VALUE for sbatch, such as partition=gpu; repeatable.")
]
RunId = Annotated[str, typer.Argument(help="A run's id, or the beginning of it; `ddp-play ps` lists them.")]


@dataclass(frozen=True, slots=True)
class Ansible:
    """Ansible's common options; `with_ansible` adds them to a verb."""

    limit: Annotated[str, typer.Option("-l", "--limit", help="Only these hosts.", rich_help_panel=ANSIBLE)] = ""
    extra_vars: Annotated[
        list[str] | None,
        typer.Option(
            "-e", "--extra-vars", help="k=v, JSON, or @file. No secrets: use a vault.", rich_help_panel=ANSIBLE
        ),
    ] = None
    user: Annotated[str, typer.Option("-u", "--user", help="Connect as this user.", rich_help_panel=ANSIBLE)] = ""
    private_key: Annotated[
        str, typer.Option("--private-key", "--key-file", help="SSH key to use.", rich_help_panel=ANSIBLE)
    ] = ""
    ask_pass: AskPass = False
    become: Annotated[
        bool, typer.Option("-b", "--become", help="Become root on the hosts.", rich_help_panel=ANSIBLE)
    ] = False
    ask_become_pass: AskBecomePass = False
    vault_password_file: Annotated[
        list[str] | None,
        typer.Option("--vault-password-file", help="File with the vault password.", rich_help_panel=ANSIBLE),
    ] = None
    vault_id: Annotated[list[str] | None, typer.Option("--vault-id", help="id@source.", rich_help_panel=ANSIBLE)] = None
    ask_vault_pass: Annotated[
        bool, typer.Option("-J", "--ask-vault-pass", help="Ask for the vault password.", rich_help_panel=ANSIBLE)
    ] = False
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, help="-v to -vvvv.", rich_help_panel=ANSIBLE)
    ] = 0

    def request(self, playbook: str | None, inventory: list[str] | None, *, allocated: bool = False) -> PlaybookRequest:
        """Request for ansible-playbook; without playbook and inventory, that of the demo. Raises UsageError.

        `allocated`: hosts come from an engine, so an inventory is only needed for variables.
        """
        path = Path(playbook) if playbook else demo_playbook()
        if not path.is_file():
            raise UsageError(f"no playbook {path}", hint=_nearest(path, "name the playbook with the job"))
        arguments = self._playbook_options()
        if self.extra_vars:
            _refuse_secrets(arguments)
        request = PlaybookRequest(
            playbook=str(path.absolute()),
            inventory=() if allocated and not inventory else _inventory(inventory, of_demo=playbook is None),
            cwd=str(Path.cwd()),
            options=arguments,
        )
        set_request(request)
        return request

    def request_for_hosts(self, inventory: list[str] | None) -> PlaybookRequest:
        """Request about the hosts of an inventory, without a job: the demo's hosts are nobody's choice. UsageError."""
        return self.request(str(demo_playbook()), inventory)

    def passwords(self) -> Passwords:
        """Prompt for the passwords that the options require."""
        return ask_passwords(connection=self.ask_pass, become=self.ask_become_pass, vault=self.ask_vault_pass)

    def _playbook_options(self) -> tuple[str, ...]:
        arguments: list[str] = []
        for flag, value in (("--limit", self.limit), ("--user", self.user), ("--private-key", self.private_key)):
            if value:
                arguments += [flag, value]
        for flag, values in (
            ("--extra-vars", self.extra_vars),
            ("--vault-password-file", self.vault_password_file),
            ("--vault-id", self.vault_id),
        ):
            arguments += [word for value in values or () for word in (flag, value)]
        if self.become:
            arguments.append("--become")
        if self.verbose:
            arguments.append("-" + "v" * self.verbose)
        return tuple(arguments)


def _refuse_secrets(arguments: tuple[str, ...]) -> None:
    from ddp_play.planning.command_line_secrets import refuse_on_command_line  # noqa: PLC0415 - YAML: 0.02 s to import

    refuse_on_command_line(arguments)


def with_group(name: str, group: Any, *names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorator that replaces the verb's parameter of this name by options, which are these fields of a dataclass.

    typer reads a command's options from the function's signature, so the decorator replaces the signature.
    """
    hints = get_type_hints(group, include_extras=True)
    chosen = [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
        if field.name in names
    ]

    def decorate(verb: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(verb)
        def command(**given: Any) -> None:
            verb(**{name: group(**{field: given.pop(field) for field in names})}, **given)

        parameters = _parameters_with_options(verb, name, chosen)
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate


def _parameters_with_options(
    verb: Callable[..., None], name: str, chosen: list[inspect.Parameter]
) -> list[inspect.Parameter]:
    """The verb's parameters, with `chosen` in place of the one of this name."""
    hints = get_type_hints(verb, include_extras=True)
    found: list[inspect.Parameter] = []
    for parameter in inspect.signature(verb).parameters.values():
        if parameter.name == name:
            found += chosen
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            found.append(parameter.replace(kind=kind, annotation=hints[parameter.name]))
    return found


with_some_of_ansible = functools.partial(with_group, "ansible", Ansible)
with_ansible = with_some_of_ansible(*(field.name for field in fields(Ansible)))


def _inventory(inventory: list[str] | None, *, of_demo: bool) -> tuple[str, ...]:
    """Requested inventory; for the demo its own; empty if Ansible's configuration defines one. Raises UsageError."""
    sources = tuple(inventory or ())
    for source in sources:
        if "," not in source and not Path(source).exists():
            general = "give a file, a directory, or host names with a comma: h1,h2,"
            raise UsageError(f"no inventory {source}", hint=_nearest(Path(source), general))
    if sources:
        return tuple(source if "," in source else str(Path(source).absolute()) for source in sources)
    if of_demo:
        return (str(demo_inventory()),)
    if not os.environ.get("ANSIBLE_INVENTORY") and not os.environ.get("ANSIBLE_CONFIG") and not _has_ansible_cfg():
        raise UsageError("no inventory: -i was not given", hint="give -i INVENTORY, or set an inventory in ansible.cfg")
    return ()


def _nearest(path: Path, otherwise: str) -> str:
    """A question for the entry of the same directory with the most similar name, or what to do otherwise."""
    try:
        names = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return otherwise
    near = difflib.get_close_matches(path.name, names, n=1, cutoff=0.7)
    return f"did you mean {path.with_name(near[0])}?" if near else otherwise


def _has_ansible_cfg() -> bool:
    return any(path.is_file() for path in (Path("ansible.cfg"), expanded("~/.ansible.cfg")))
