"""Refusal of a `--limit` with names that the inventory does not have, after a program of Ansible has left them out."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.planning.limit_names import refuse_unknown_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

# Ansible's words for a pattern without a host; the second if no pattern has one.
LEFT_OUT = ("Could not match supplied host pattern", "no hosts to target")
TIMEOUT_S = 120.0
VAULT_OPTIONS = ("--vault-password-file", "--vault-id")


def refuse_left_out_names(
    said: str, sources: Iterable[str], options: Iterable[str], *, cwd: str, environment: Mapping[str, str]
) -> None:
    """Raise UsageError if Ansible `said` that it leaves names of the limit out, with the names that are near.

    `options`: those of ansible-playbook. The names come from `ansible-inventory`, which takes half a second or more.
    """
    given = tuple(options)
    limit = dict(itertools.pairwise(given)).get("--limit", "")
    if not limit or not any(words in said for words in LEFT_OUT):
        return
    vault = [word for pair in itertools.pairwise(given) if pair[0] in VAULT_OPTIONS for word in pair]
    listing = _listing([*(word for source in sources for word in ("-i", source)), *vault], cwd, environment)
    if listing:
        groups = [name for name in listing if name != "_meta"]
        groups += [child for row in listing.values() for child in row.get("children", ())]
        hosts = [host for row in listing.values() for host in row.get("hosts", ())]
        refuse_unknown_names(limit, tuple(dict.fromkeys(groups)), tuple(dict.fromkeys(hosts)), lines_below(cwd))


def lines_below(directory: str) -> Callable[[str], list[str]]:
    """Reads the lines of a file, which is relative to the directory; none if it cannot be read."""

    def lines_of(name: str) -> list[str]:
        try:
            return Path(directory, name).read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []

    return lines_of


def _listing(arguments: list[str], cwd: str, environment: Mapping[str, str]) -> dict[str, Any]:
    """The whole inventory's groups; empty if Ansible cannot read it."""
    program = Path(sys.executable).with_name("ansible-inventory")
    command = [str(program) if program.exists() else "ansible-inventory", "--list", *arguments]
    try:
        strict = {**environment, "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "True"}
        done = subprocess.run(
            command, cwd=cwd, env=strict, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        found = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return {}
    return found if isinstance(found, dict) else {}
