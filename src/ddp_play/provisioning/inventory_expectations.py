"""Rules for what hosts of an inventory expect of each other: subnets, servers, shared directories. Pure.

What they find are notes, not errors: a site may provide by other means what its inventory does not.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from ddp_play.provisioning.change_listing import host_ranges
from ddp_play.provisioning.inventory_rules import NOTE, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ddp_play.provisioning.inventory import Inventory

REFERENCE = re.compile(r"\{\{\s*(\w+)\s*\}\}")
MAX_REFERENCES = 10  # a variable that leads to itself has no value
DOCTOR = "ddp-play doctor -i INVENTORY shows whether the hosts see the same directory there"


class UnknownValueError(Exception):
    """A value that only Ansible can compute."""


@dataclass(frozen=True, slots=True)
class _Mount:
    server: str
    path: str
    mountpoint: str


def check_expectations(inventory: Inventory, addresses: Mapping[str, tuple[str, ...]]) -> tuple[Finding, ...]:
    """Find subnets, servers and shared directories that nobody in the inventory provides.

    `addresses`: of the hosts, as far as they are known.
    """
    return (
        *_outside_firewall_subnets(inventory, addresses),
        *_servers(inventory, addresses),
        *_shared_directories(inventory),
    )


def known_value(inventory: Inventory, host: str, name: str, default: Any = None) -> Any:
    """Value of a host's variable with references to other variables filled in, without filters and expressions.

    Raises UnknownValueError if the value needs more than that.
    """
    found = inventory.value(host, name)
    return default if found is None else _filled(inventory, host, found, MAX_REFERENCES)


def _filled(inventory: Inventory, host: str, value: Any, depth: int) -> Any:
    if isinstance(value, list):
        return [_filled(inventory, host, item, depth) for item in value]
    if isinstance(value, dict):
        return {key: _filled(inventory, host, item, depth) for key, item in value.items()}
    if not isinstance(value, str) or "{" not in value:
        return value
    if whole := REFERENCE.fullmatch(value.strip()):
        return _referred(inventory, host, whole[1], depth)
    text = REFERENCE.sub(lambda match: str(_referred(inventory, host, match[1], depth)), value)
    if "{{" in text or "{%" in text:
        raise UnknownValueError(value)
    return text


def _referred(inventory: Inventory, host: str, name: str, depth: int) -> Any:
    found = host if name == "inventory_hostname" else inventory.value(host, name)
    if found is None or not depth:
        raise UnknownValueError(name)
    return _filled(inventory, host, found, depth - 1)


def _list_value(inventory: Inventory, host: str, name: str) -> list[Any]:
    """A list, empty if its value is not known or not a list (the rules for values say that)."""
    try:
        found = known_value(inventory, host, name)
    except UnknownValueError:
        return []
    return found if isinstance(found, list) else []


def _text_value(inventory: Inventory, host: str, name: str) -> str:
    try:
        return str(known_value(inventory, host, name, ""))
    except UnknownValueError:
        return ""


def _hosts(inventory: Inventory, *groups: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(host for group in groups for host in inventory.members(group)))


def _is_inside(addresses: Iterable[str], subnets: Iterable[Any]) -> bool | None:
    """Whether one address lies in one subnet; None if a subnet is none (a name, a wildcard) or no address is known."""
    try:
        networks = [ipaddress.ip_network(str(subnet), strict=False) for subnet in subnets]
        found = [ipaddress.ip_address(address) for address in addresses]
    except ValueError:
        return None
    if not networks or not found:
        return None
    return any(address in network for address in found for network in networks if address.version == network.version)


def _outliers(judged: Mapping[str, bool | None]) -> tuple[str, ...]:
    """Hosts outside subnets in which others are. All outside says nothing: SSH may use a network of its own."""
    return tuple(host for host, inside in judged.items() if inside is False) if True in judged.values() else ()


def _outside_firewall_subnets(inventory: Inventory, addresses: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    subnets = {
        host: _list_value(inventory, host, "base_os_firewall_subnets")
        for host in _hosts(inventory, "ranks", "spares", "nfs_server")
        if _text_value(inventory, host, "base_os_firewall").lower() in ("true", "yes", "on", "1")
    }
    for host in _outliers({host: _is_inside(addresses.get(host, ()), rows) for host, rows in subnets.items()}):
        shown = ", ".join(map(str, subnets[host]))
        message = f"its address {', '.join(addresses[host])} is in none of base_os_firewall_subnets ({shown})"
        hint = "other hosts are, and would drop what it sends: add its subnet, or correct ansible_host"
        yield Finding("outside_subnets", f"host {host}", message, hint, NOTE)


def _mounts(inventory: Inventory, host: str) -> list[_Mount]:
    rows = [row for row in _list_value(inventory, host, "nfs_client_mounts") if isinstance(row, dict)]
    keys = ("server", "path", "mountpoint")
    return [_Mount(*(str(row[key]) for key in keys)) for row in rows if all(row.get(key) for key in keys)]


def _servers(inventory: Inventory, addresses: Mapping[str, tuple[str, ...]]) -> Iterator[Finding]:
    clients: dict[_Mount, list[str]] = {}
    for host in _hosts(inventory, "ranks", "spares"):
        for mount in _mounts(inventory, host):
            clients.setdefault(mount, []).append(host)
    by_name = {name: host for host, found in addresses.items() for name in (*found, host)}
    by_name |= {host: host for host in inventory.hosts}
    by_name |= {_text_value(inventory, host, "ansible_host"): host for host in inventory.hosts}
    for mount, hosts in clients.items():
        server = by_name.get(mount.server, "")
        yield from _server_findings(inventory, mount, hosts, server, addresses)


def _server_findings(
    inventory: Inventory, mount: _Mount, clients: list[str], server: str, addresses: Mapping[str, tuple[str, ...]]
) -> Iterator[Finding]:
    where = f"{_named(clients)} (nfs_client_mounts)"
    if not server:
        message = f"the server {mount.server} of {mount.mountpoint} is no host of this inventory"
        hint = f"the site has to export {mount.path} there; provision only mounts it"
        yield Finding("foreign_server", where, message, hint, NOTE)
        return
    if server not in inventory.members("nfs_server"):
        message = f"the server {server} of {mount.mountpoint} is not in group nfs_server"
        yield Finding("no_server", where, message, "add it there, and provision exports the directory", NOTE)
        return
    exports = [row for row in _list_value(inventory, server, "nfs_server_exports") if isinstance(row, dict)]
    found = next((row for row in exports if _is_below(mount.path, str(row.get("path", "")))), None)
    if exports and found is None:
        shown = ", ".join(str(row.get("path")) for row in exports)
        message = f"the server {server} exports {shown}, not {mount.path}"
        yield Finding("no_export", where, message, "correct nfs_server_exports or the path of the mount", NOTE)
    allowed = (found or {}).get("clients")
    rows = allowed if isinstance(allowed, list) else []
    outside = _outliers({client: _is_inside(addresses.get(client, ()), rows) for client in clients})
    if outside:
        message = f"not in the clients of {mount.path} on {server} ({', '.join(map(str, rows))})"
        hint = "the server would refuse the mount: add their subnet to nfs_server_exports"
        yield Finding("not_a_client", _named(outside), message, hint, NOTE)


def _is_below(path: str, directory: str) -> bool:
    return bool(directory) and PurePosixPath(path).is_relative_to(directory)


def _shared_directories(inventory: Inventory) -> Iterator[Finding]:
    missing: dict[str, list[str]] = {}
    hosts = _hosts(inventory, "ranks", "spares")
    for host in hosts if len(hosts) > 1 else ():
        directory = _text_value(inventory, host, "ddp_shared_dir")
        if directory and not any(_is_below(directory, place) for place in _provided(inventory, host)):
            missing.setdefault(directory, []).append(host)
    for directory, without in missing.items():
        message = f"nothing in this inventory mounts {directory} (ddp_shared_dir)"
        hint = f"set nfs_client_mounts, or mount it yourself; {DOCTOR}"
        yield Finding("shared_directory", _named(without), message, hint, NOTE)


def _provided(inventory: Inventory, host: str) -> list[str]:
    mounted = [mount.mountpoint for mount in _mounts(inventory, host)]
    exports = _list_value(inventory, host, "nfs_server_exports") if host in inventory.members("nfs_server") else []
    return mounted + [str(row.get("path", "")) for row in exports if isinstance(row, dict)]


def _named(hosts: Iterable[str]) -> str:
    names = list(hosts)
    return f"host{'s' if len(names) > 1 else ''} {host_ranges(names)}"
