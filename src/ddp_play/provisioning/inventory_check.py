"""Check of an inventory: reads it with Ansible, resolves the hosts' names, and applies the rules."""

from __future__ import annotations

import shlex
import socket
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import yaml

from ddp_play.ansible.installed_collection import collection_root
from ddp_play.planning.remedy_text import Asked, complete
from ddp_play.provisioning.inventory import load_inventory
from ddp_play.provisioning.inventory_expectations import check_expectations
from ddp_play.provisioning.inventory_rules import (
    ERROR,
    NOTE,
    Finding,
    check_addresses,
    check_groups,
    check_variables,
    host_addresses,
)
from ddp_play.provisioning.phases import known_groups
from ddp_play.provisioning.role_specs import read_specs

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.ansible.runner import Passwords, PlaybookRequest
    from ddp_play.provisioning.inventory import Inventory, InventoryLoader

SSH_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class CheckedInventory:
    """An inventory and its findings, errors first."""

    inventory: Inventory
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What has to be corrected."""
        return tuple(finding for finding in self.findings if finding.severity == ERROR)

    @property
    def notes(self) -> tuple[Finding, ...]:
        """What nobody in the inventory provides."""
        return tuple(finding for finding in self.findings if finding.severity == NOTE)

    def to_json(self) -> dict[str, Any]:
        """Document for `--json`."""
        return {
            "exit_class": "usage" if self.errors else "done",
            "hosts": list(self.inventory.hosts),
            "findings": [finding.to_json() for finding in self.findings],
        }


def resolve_name(name: str, ssh_arguments: str) -> tuple[str, ...]:
    """Addresses of a name as ssh resolves it; the name itself if a jump host resolves it; empty if unknown."""
    found = _addresses(name)
    if found:
        return found
    try:
        answer = subprocess.run(
            ["ssh", *shlex.split(ssh_arguments), "-G", name],
            capture_output=True, text=True, timeout=SSH_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ()
    settings = dict(line.split(" ", 1) for line in answer.stdout.splitlines() if " " in line)
    if settings.get("proxyjump", "none") != "none" or settings.get("proxycommand", "none") != "none":
        return (name,)
    return _addresses(settings.get("hostname", name)) if settings.get("hostname", name) != name else ()


def _addresses(name: str) -> tuple[str, ...]:
    try:
        rows = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(row[4][0]) for row in rows))


def check_inventory(
    request: PlaybookRequest,
    passwords: Passwords,
    *,
    load: InventoryLoader = load_inventory,
    resolve: Callable[[str, str], tuple[str, ...]] = resolve_name,
) -> CheckedInventory:
    """Find all errors of an inventory that can be found without a connection to its hosts. Raises UsageError."""
    inventory = load(request, passwords)
    path = collection_root() / "playbooks" / "provision.yml"
    groups = known_groups(yaml.safe_load(path.read_text(encoding="utf-8")))
    addresses = host_addresses(inventory, resolve)
    found = (*check_variables(inventory, read_specs()), *check_addresses(inventory, addresses))
    if "--limit" not in request.options:  # with --limit the groups are incomplete
        found = (*check_groups(inventory, groups), *found, *check_expectations(inventory, addresses))
    asked = Asked(request.inventory, request.options)
    return CheckedInventory(inventory, tuple(replace(row, hint=complete(row.hint, asked)) for row in found))
