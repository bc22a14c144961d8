"""Inventory as Ansible reads it: groups, hosts and their variables, from one call of `ansible-inventory`."""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

from ddp_play.ansible.error_output import error_text, start_remedy
from ddp_play.ansible.limit_refusal import refuse_left_out_names
from ddp_play.ansible.password_files import password_files
from ddp_play.errors import InternalError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.ansible.runner import Passwords, PlaybookRequest

TIMEOUT_S = 120.0
# Options of ansible-playbook that affect the content of the inventory.
INVENTORY_OPTIONS = ("--limit", "--vault-password-file", "--vault-id")


@dataclass(frozen=True, slots=True)
class Group:
    """One group: its own hosts, its child groups, and the variables set on it, without inherited ones."""

    name: str
    hosts: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Groups by name, the variables set on hosts themselves, and the files that may set variables."""

    groups: Mapping[str, Group]
    host_variables: Mapping[str, Mapping[str, Any]]
    files: tuple[Path, ...] = ()  # everything below group_vars and host_vars next to the sources

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts in the inventory's order."""
        return tuple(dict.fromkeys(host for name in self.groups for host in self.members(name)))

    def members(self, name: str) -> tuple[str, ...]:
        """Hosts of a group and of its child groups; empty if there is no such group."""
        if name not in self.groups:
            return ()
        group = self.groups[name]
        below = (host for child in group.children for host in self.members(child))
        return tuple(dict.fromkeys((*group.hosts, *below)))

    def value(self, host: str, name: str) -> Any:
        """Value of a host's variable: the host's own, else that of its smallest group that sets it, else None."""
        if name in self.host_variables.get(host, {}):
            return self.host_variables[host][name]
        groups_with_value = [group for group in self.groups.values() if name in group.variables]
        for group in sorted(groups_with_value, key=lambda group: len(self.members(group.name))):
            if host in self.members(group.name):
                return group.variables[name]
        return None


def matching_hosts(pattern: str, inventory: Inventory) -> tuple[str, ...]:
    """Hosts that match a play's pattern: names, groups and wildcards joined by `:` or `,`, with `!` and `&`."""
    terms = [term.strip() for term in re.split(r"[,:]", pattern) if term.strip()]
    named = [term for term in terms if term[0] not in "!&"] or ["all"]
    chosen = {host for term in named for host in _matching(term, inventory)}
    for term in terms:
        if term[0] == "&":
            chosen &= set(_matching(term[1:], inventory))
    for term in terms:
        if term[0] == "!":
            chosen -= set(_matching(term[1:], inventory))
    return tuple(host for host in inventory.hosts if host in chosen)


def _matching(term: str, inventory: Inventory) -> list[str]:
    if term == "all":
        return list(inventory.hosts)
    groups = [name for name in inventory.groups if fnmatch.fnmatchcase(name, term)]
    found = [host for name in groups for host in inventory.members(name)]
    return found + [host for host in inventory.hosts if fnmatch.fnmatchcase(host, term)]


def provider_hosts(inventory: Inventory) -> tuple[str, ...]:
    """Hosts whose services others use while they are provisioned. In batches of hosts they come first."""
    names = [*inventory.members("nfs_server"), *inventory.members("registry")]
    for host in inventory.hosts:
        names += [
            str(inventory.value(host, name)) for name in ("image_distribution_registry_host", "python_env_builder")
        ]
    return tuple(name for name in dict.fromkeys(names) if name in inventory.hosts)


class InventoryLoader(Protocol):
    """Interface to `ansible-inventory`. Tests pass a function instead."""

    def __call__(self, request: PlaybookRequest, passwords: Passwords) -> Inventory:
        """Inventory of a request, restricted to its limit."""


def load_inventory(request: PlaybookRequest, passwords: Passwords) -> Inventory:
    """Read the inventory with `ansible-inventory`. Raises UsageError with Ansible's message if that fails."""
    program = Path(sys.executable).with_name("ansible-inventory")
    command = [str(program) if program.exists() else "ansible-inventory", "--list", "--export"]
    command += [argument for source in request.inventory for argument in ("-i", source)]
    command += _inventory_options(request.options)
    environment = {**os.environ, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True", "ANSIBLE_NOCOLOR": "1"}
    secret = password_files(**asdict(passwords))
    with TemporaryDirectory(prefix="ddp-play-inventory-") as scratch, secret as password_options:
        command += _vault_options(password_options)
        options = (*request.options, *password_options)
        try:
            done = subprocess.run(
                command, cwd=request.cwd, env={**environment, "ANSIBLE_LOCAL_TEMP": scratch}, capture_output=True,
                text=True, timeout=TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        except FileNotFoundError:
            raise InternalError("ansible-inventory is not installed", hint="pip install ansible-core") from None
        except subprocess.TimeoutExpired:
            raise UsageError(f"ansible-inventory did not end within {TIMEOUT_S:.0f} s") from None
        refuse_left_out_names(done.stderr, request.inventory, options, cwd=request.cwd, environment=environment)
    if done.returncode != 0:
        text = _error_message(done.stderr)
        raise UsageError(text, hint=start_remedy(text) or "ansible-inventory --graph -i INVENTORY shows all of it")
    return parse_inventory(json.loads(done.stdout), variable_files(request.inventory))


def _inventory_options(options: tuple[str, ...]) -> list[str]:
    found = []
    for option, value in itertools.pairwise(options):
        if option in INVENTORY_OPTIONS:
            found += [option, value]
    return found


def _vault_options(options: list[str]) -> list[str]:
    pairs = zip(options[::2], options[1::2], strict=True)
    return [argument for option, value in pairs if option == "--vault-password-file" for argument in (option, value)]


def _error_message(stderr: str) -> str:
    return error_text(stderr) or "ansible-inventory failed"


def parse_inventory(document: dict[str, Any], files: tuple[Path, ...] = ()) -> Inventory:
    """Inventory from the output of `ansible-inventory --list --export`."""
    groups = {
        name: Group(name, tuple(row.get("hosts", ())), tuple(row.get("children", ())), row.get("vars", {}))
        for name, row in document.items()
        if name != "_meta"
    }
    # The output lists empty groups only as children.
    for child in [child for group in groups.values() for child in group.children]:
        groups.setdefault(child, Group(child))
    return Inventory(groups, document.get("_meta", {}).get("hostvars", {}), files)


def variable_files(sources: tuple[str, ...]) -> tuple[Path, ...]:
    """Files below group_vars and host_vars next to the sources."""
    found: list[Path] = []
    for source in sources:
        if "," in source:
            continue
        base = Path(source) if Path(source).is_dir() else Path(source).parent
        for folder in ("group_vars", "host_vars"):
            found += sorted(path for path in (base / folder).rglob("*") if path.is_file())
    return tuple(dict.fromkeys(found))
