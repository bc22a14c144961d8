"""Rules for an inventory: variable names and values by the roles' specs, groups, addresses. Pure."""

from __future__ import annotations

import contextlib
import difflib
import ipaddress
import re
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ddp_play.planning.host_names import REMEDY, name_problem
from ddp_play.planning.job_values import HOST_VARIABLES, slot_count
from ddp_play.provisioning.role_specs import DISRUPT, REBOOT_SERIAL, SITE_OPTIONS, value_problems

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ddp_play.provisioning.inventory import Inventory
    from ddp_play.provisioning.role_specs import Specs

IGNORED_FILES = re.compile(r"(^\.|~$|\.(example|md|txt|swp|orig|bak)$)")
NO_VARIABLES: Mapping[str, Any] = MappingProxyType({})
# A name without a role's prefix counts as misspelt only if it is this similar to a known name.
MISSPELT_SIMILARITY = 0.93
SLOTS = "ddp_slots"


ERROR, NOTE = "error", "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One error in an inventory, or a note: its place, the message, and a hint."""

    kind: str
    where: str
    message: str
    hint: str = ""
    severity: str = ERROR  # or NOTE: the site may have its reasons

    def to_json(self) -> dict[str, str]:
        """Document for `--json`."""
        return asdict(self)

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" + (f"; {self.hint}" if self.hint else "")
        return f"note: {text}" if self.severity == NOTE else text


def check_variables(inventory: Inventory, specs: Specs, extra: Mapping[str, Any] = NO_VARIABLES) -> tuple[Finding, ...]:
    """Check names and values of all variables of hosts and groups, and of `extra` from the command line."""
    known = {name: option for options in (*specs.values(), SITE_OPTIONS) for name, option in options.items()}
    names = {*known, *HOST_VARIABLES, DISRUPT}
    found = []
    extra = {name: value for name, value in extra.items() if name != REBOOT_SERIAL}  # of ddp-play reboot --serial
    for where, variables in (*_variable_sources(inventory), ("--extra-vars", extra)):
        for name, value in sorted(variables.items()):
            finding = _name_finding(name, where, names, tuple(specs), inventory)
            if finding is not None:
                found.append(finding)
            elif name in known:
                place = _location(where, name, inventory)
                found += [Finding("value", place, text) for text in value_problems(name, known[name], value)]
            elif name == SLOTS and (text := _slots_problem(value)):
                found.append(Finding("value", _location(where, name, inventory), text))
    return tuple(found)


def _slots_problem(value: Any) -> str:
    """Why a host has no such number of slots; empty for a good one, a template, and one that is not set."""
    if value in (None, "") or "{{" in str(value) or "__ansible_vault" in str(value):
        return ""
    with contextlib.suppress(ValueError):
        if slot_count(value) >= 1:
            return ""
    return f"{SLOTS} is {value!r}; it must be a whole number from 1 up"


def _variable_sources(inventory: Inventory) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for group in inventory.groups.values():
        yield f"group {group.name}", group.variables
    for host, variables in inventory.host_variables.items():
        yield f"host {host}", variables


def _name_finding(
    name: str, where: str, known: set[str], roles: tuple[str, ...], inventory: Inventory
) -> Finding | None:
    if name in known:
        return None
    has_our_prefix = name.startswith(("ddp_", *(f"{role}_" for role in roles)))
    similar = difflib.get_close_matches(name, known, n=1, cutoff=0.6 if has_our_prefix else MISSPELT_SIMILARITY)
    if not has_our_prefix and not similar:
        return None
    hint = f"did you mean {similar[0]}?" if similar else _spec_hint(name, roles)
    return Finding("unknown_variable", _location(where, name, inventory), f"unknown variable {name}", hint)


def _spec_hint(name: str, roles: tuple[str, ...]) -> str:
    role = next((role for role in sorted(roles, key=len, reverse=True) if name.startswith(f"{role}_")), "ddp_job")
    return f"ansible-doc -t role ddp.play.{role} lists the variables"


def _location(where: str, name: str, inventory: Inventory) -> str:
    """The host or group, and the file and line that set the variable, if found."""
    kind, _, owner = where.partition(" ")
    pattern = re.compile(rf"^\s*[\"']?{re.escape(name)}[\"']?\s*[:=]", re.MULTILINE)
    for path in inventory.files:
        if f"{kind}_vars" not in path.parts:
            continue
        below = path.parts[len(path.parts) - path.parts[::-1].index(f"{kind}_vars") :]
        if below[0].removesuffix(path.suffix) in (owner, owner.removesuffix(path.suffix)):
            match = pattern.search(path.read_text(encoding="utf-8", errors="replace"))
            if match:
                line = path.read_text(encoding="utf-8", errors="replace").count("\n", 0, match.end()) + 1
                return f"{where} ({'/'.join((f'{kind}_vars', *below))}:{line})"
    return where


def check_groups(inventory: Inventory, known: tuple[str, ...]) -> tuple[Finding, ...]:
    """Check names of hosts and groups, that group `ranks` has hosts, and that files of variables belong to a group."""
    problems = ((name, name_problem(name)) for name in inventory.hosts)
    found = [Finding("host_name", f"host {name}", problem, REMEDY) for name, problem in problems if problem]
    present = {name for name in inventory.groups if inventory.members(name)}
    for name in inventory.groups:
        similar = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
        if similar and name not in known and similar[0] not in present:
            found.append(
                Finding("misspelt_group", f"group {name}", "no playbook uses it", f"did you mean {similar[0]}?")
            )
    if "ranks" not in present:
        hint = "its hosts run the ranks; ddp-play init DIR writes an example"
        found.append(Finding("missing_group", "inventory", "there is no group ranks with hosts", hint))
    return (*found, *_orphan_files(inventory))


def _orphan_files(inventory: Inventory) -> Iterator[Finding]:
    seen = set()
    for path in inventory.files:
        kind = "group" if "group_vars" in path.parts else "host"
        parts = path.parts[len(path.parts) - path.parts[::-1].index(f"{kind}_vars") :]
        name = parts[0].removesuffix(path.suffix) if len(parts) == 1 else parts[0]
        owners = tuple(inventory.groups) if kind == "group" else inventory.hosts
        if IGNORED_FILES.search(parts[0]) or name in owners or parts[0] in owners or name in seen:
            continue
        seen.add(name)
        similar = difflib.get_close_matches(name, owners, n=1, cutoff=0.6)
        hint = f"did you mean {similar[0]}?" if similar else ""
        yield Finding("orphan_file", f"{kind}_vars/{parts[0]}", f"there is no {kind} {name}: Ansible ignores it", hint)


def host_addresses(inventory: Inventory, resolve: Callable[[str, str], tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Addresses of the hosts that are reached by ssh and whose name needs no templating; empty if unknown.

    `resolve` takes a name and the host's SSH arguments.
    """
    found: dict[str, tuple[str, ...]] = {}
    for host in inventory.hosts:
        if inventory.value(host, "ansible_connection") not in (None, "ssh", "ansible.builtin.ssh", "smart"):
            continue
        target = _target(inventory, host)
        if "{{" in target:
            continue
        arguments = f"{inventory.value(host, 'ansible_ssh_common_args') or ''}"
        found[host] = _literal_address(target) or resolve(target, "" if "{{" in arguments else arguments)
    return found


def _target(inventory: Inventory, host: str) -> str:
    return str(inventory.value(host, "ansible_host") or host)


def check_addresses(inventory: Inventory, addresses: Mapping[str, tuple[str, ...]]) -> tuple[Finding, ...]:
    """Check that every host of `host_addresses` has an address of its own."""
    found: list[Finding] = []
    owners: dict[tuple[str, str], str] = {}
    for host, known in addresses.items():
        if not known:
            hint = "set ansible_host to an address, or add the name to DNS, /etc/hosts or ~/.ssh/config"
            message = f"the name {_target(inventory, host)} cannot be resolved"
            found.append(Finding("no_address", f"host {host}", message, hint))
        port = str(inventory.value(host, "ansible_port") or 22)
        for address in known:
            other = owners.setdefault((address, port), host)
            if other != host:
                message = f"has the address of {other} ({address}, port {port})"
                found.append(Finding("same_address", f"host {host}", message, "correct ansible_host of one of them"))
                break
    return tuple(found)


def _literal_address(target: str) -> tuple[str, ...]:
    try:
        return (str(ipaddress.ip_address(target)),)
    except ValueError:
        return ()
