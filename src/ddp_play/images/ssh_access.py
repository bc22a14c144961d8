"""How `image load` reaches the inventory's hosts: Ansible's view of them, plain ssh to them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_GROUP = "ranks"


@dataclass(frozen=True)
class Reach:
    """One host and the argv in front of a shell command for it; empty argv means this machine."""

    name: str
    argv: tuple[str, ...]

    def run(self, command: str, *, stdin: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.CompletedProcess[bytes]:
        """Run a shell command there and wait for it."""
        argv = [*self.argv, command] if self.argv else ["sh", "-c", command]
        return subprocess.run(argv, stdin=stdin, capture_output=True, check=False)


def resolve(inventory: str, limit: str = "") -> list[Reach]:
    """The hosts of group `ranks` (all hosts where there is no such group), in inventory order."""
    program = Path(sys.executable).with_name("ansible-inventory")
    argv = [str(program) if program.exists() else "ansible-inventory", "-i", inventory, "--list"]
    argv += ["--limit", limit] if limit else []
    result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise UsageError(f"Ansible cannot read inventory {inventory}:\n{result.stderr.strip()}")
    found = parse_inventory(json.loads(result.stdout))
    if not found:
        raise UsageError(f"inventory {inventory} has no hosts" + (f" that match {limit}" if limit else ""))
    return found


def parse_inventory(listing: Mapping[str, Any]) -> list[Reach]:
    """The output of `ansible-inventory --list` as hosts to reach."""
    variables = listing.get("_meta", {}).get("hostvars", {})
    start = _GROUP if _GROUP in listing else "all"
    return [Reach(name, ssh_argv(name, variables.get(name, {}))) for name in _members(listing, start)]


def ssh_argv(name: str, variables: Mapping[str, Any]) -> tuple[str, ...]:
    """The ssh command line that Ansible's connection variables describe."""
    if variables.get("ansible_connection") == "local":
        return ()
    argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
    for option, keys in (
        ("-i", ("ansible_ssh_private_key_file", "ansible_private_key_file")),
        ("-p", ("ansible_port", "ansible_ssh_port")),
        ("-l", ("ansible_user", "ansible_ssh_user")),
    ):
        value = next((variables[key] for key in keys if key in variables), None)
        if value is not None:
            argv += [option, str(value)]
    for key in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
        argv += shlex.split(str(variables.get(key, "")))
    return (*argv, str(variables.get("ansible_host", name)))


def _members(listing: Mapping[str, Any], group: str) -> list[str]:
    body = listing.get(group, {})
    found = list(body.get("hosts", ()))
    for child in body.get("children", ()):
        found += _members(listing, child)
    return list(dict.fromkeys(found))
