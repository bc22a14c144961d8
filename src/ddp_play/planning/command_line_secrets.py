"""Secrets in `--extra-vars`: refused, because command lines are stored and shown. Pure."""

from __future__ import annotations

import itertools
import re
import shlex
from typing import TYPE_CHECKING, Any

import yaml

from ddp_play.errors import UsageError
from ddp_play.planning.job_secrets import Known
from ddp_play.planning.job_values import PREFIX, SECRET_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

# Of Ansible's connection and become plugins: ansible_password, ansible_ssh_private_key_passphrase, ansible_dzdo_pass.
CONNECTION_PASSWORD = re.compile(r"ansible_(\w+_)?pass(word|phrase)?")
# Nothing but a template: the value comes from elsewhere, such as a vault.
TEMPLATE = re.compile(r"\s*\{\{.*\}\}\s*", re.DOTALL)
# A template may contain spaces and quotes, and belongs to one word.
BLOCK = re.compile(r"\{\{.*?\}\}", re.DOTALL)


def refuse_on_command_line(options: tuple[str, ...]) -> None:
    """UsageError for a secret in the options of ansible-playbook. A file (`@FILE`) may hold one: it is not read."""
    for option, value in itertools.pairwise(options):
        if option == "--extra-vars" and not value.startswith("@"):
            for name in _secret_names(_variables(value)):
                raise UsageError(
                    f"-e sets the secret {name} on the command line: its files here would contain it, and process "
                    "lists show it to every user of this machine",
                    hint=("-k and -K ask for passwords; or " if CONNECTION_PASSWORD.fullmatch(name) else "")
                    + "write the variable into a file that only you can read (chmod 600), or that ansible-vault "
                    "encrypts, and give -e @FILE",
                )


def _variables(value: str) -> dict[str, Any]:
    """Variables of one option, as Ansible reads it; none if Ansible will refuse it."""
    try:
        if value.startswith(("{", "[")):
            document = yaml.safe_load(value)
            return document if isinstance(document, dict) else {}
        pairs = (word.partition("=") for word in shlex.split(BLOCK.sub("{{template}}", value)))
    except (ValueError, yaml.YAMLError):
        return {}
    return {name: _document(text) for name, sign, text in pairs if sign}


def _document(text: str) -> Any:
    """The value of `name=value`: Ansible takes a text for a mapping if it looks like one."""
    try:
        return yaml.safe_load(text) if text.startswith("{") else text
    except yaml.YAMLError:
        return text


def _secret_names(variables: dict[str, Any]) -> Iterator[str]:
    for name in SECRET_VARIABLES:
        if _is_given(variables.get(PREFIX + name)):
            yield PREFIX + name
    yield from (
        name for name, value in variables.items() if CONNECTION_PASSWORD.fullmatch(str(name)) and _is_given(value)
    )
    env = variables.get(PREFIX + "env")
    for name, value in env.items() if isinstance(env, dict) else ():
        if Known().tells(str(name), value) and _is_given(value):
            yield f"{name} of {PREFIX}env"


def _is_given(value: Any) -> bool:
    """Is there a value, and not only a template that names another variable?"""
    if isinstance(value, dict):
        return any(map(_is_given, value.values()))
    return value not in (None, "") and not TEMPLATE.fullmatch(str(value))
