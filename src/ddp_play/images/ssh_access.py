"""SSH access of `image load` to the hosts of an inventory, with options from Ansible's connection variables."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ddp_play.ansible.limit_refusal import refuse_left_out_names
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

_GROUP = "ranks"


@dataclass(frozen=True)
class HostAccess:
    """A host and the argv that precedes a shell command for it; empty if the host is this machine."""

    name: str
    argv: tuple[str, ...]

    def run(self, command: str, *, stdin: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.CompletedProcess[bytes]:
        """Run a shell command on the host and wait for its end. Does not raise on a nonzero exit code."""
        argv = [*self.argv, command] if self.argv else ["sh", "-c", command]
        return subprocess.run(argv, stdin=stdin, capture_output=True, check=False)


def resolve(inventory: str, limit: str = "") -> list[HostAccess]:
    """Hosts of group `ranks`, or all hosts if there is no such group, in inventory order. Raises UsageError."""
    program = Path(sys.executable).with_name("ansible-inventory")
    argv = [str(program) if program.exists() else "ansible-inventory", "-i", inventory, "--list"]
    argv += ["--limit", limit] if limit else []
    result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise UsageError(f"Ansible cannot read inventory {inventory}:\n{result.stderr.strip()}")
    refuse_left_out_names(result.stderr, (inventory,), ("--limit", limit), cwd=str(Path.cwd()), environment=os.environ)
    found = parse_inventory(json.loads(result.stdout))
    if not found:
        raise UsageError(f"inventory {inventory} has no hosts" + (f" that match {limit}" if limit else ""))
    return found


def parse_inventory(listing: Mapping[str, Any]) -> list[HostAccess]:
    """Hosts from the output of `ansible-inventory --list`."""
    variables = listing.get("_meta", {}).get("hostvars", {})
    start = _GROUP if _GROUP in listing else "all"
    return [HostAccess(name, ssh_argv(name, variables.get(name, {}))) for name in _members(listing, start)]


def ssh_argv(name: str, variables: Mapping[str, Any]) -> tuple[str, ...]:
    """ssh command line from Ansible's connection variables; empty for a local connection."""
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
