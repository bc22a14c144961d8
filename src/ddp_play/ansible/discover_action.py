"""What the action plugin `discover` calls: the program's answer as facts, and the cache of facts."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from ddp_play.ansible.plugin_variables import FACTS_ENV, USE_CACHED_ENV
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.guard.protocol import BEGIN, END

OLDEST_PYTHON = (3, 9)


def parse_facts(stdout: str, stderr: str, *, sent: float, received: float, inventory: dict[str, Any]) -> dict[str, Any]:
    """The program's answer plus the host variables that concern us. Times in epoch seconds of the controller."""
    facts = parse_answer(stdout, stderr)
    found = tuple(int(part) for part in facts["python_version"].split(".")[:2])
    if found < OLDEST_PYTHON:
        raise HostNotReady(f"Python {facts['python_version']} is too old", hint="3.9 or newer is needed on hosts")
    # Somewhere between asking and receiving the host looked at its clock.
    facts["clock_offset_s"] = round(facts["clock"] - min(max(facts["clock"], sent), received), 3)
    facts["inventory"] = inventory
    return facts


def parse_answer(stdout: str, stderr: str) -> dict[str, Any]:
    """The marked line of JSON in what the program printed; whatever a login shell added is ignored."""
    match = re.search(re.escape(BEGIN) + "(.*?)" + re.escape(END), stdout, re.DOTALL)
    if not match:
        lines = (stderr.strip() or stdout.strip()).splitlines()
        raise HostNotReady(lines[-1] if lines else "the host gave no answer")
    answer: dict[str, Any] = json.loads(match[1])
    return answer


def only_cached() -> bool:
    """Was discovery skipped on purpose?"""
    return bool(os.environ.get(USE_CACHED_ENV))


def cached_facts(hosts: list[str], discovered: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """`plan --cached` reads the facts of the last discovery; every discovery leaves them for it."""
    given = os.environ.get(FACTS_ENV)
    if not given:
        return discovered
    path = Path(given)
    if not only_cached():
        write_json(path, {**read_json(path), **{name: row for name, row in discovered.items() if row.get("facts")}})
        return discovered
    known = read_json(path)
    missing = [host for host in hosts if host not in known]
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise UsageError(f"no cached facts of {shown}", hint="ddp-play plan without --cached asks the hosts")
    return {host: known[host] for host in hosts}
