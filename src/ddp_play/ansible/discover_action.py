"""Code of the action plugin `discover`: host facts from the host program's output, and the cache of host facts."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.plugin_variables import FACTS_ENV, USE_CACHED_ENV
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.guard.protocol import BEGIN, END
from ddp_play.planning.host_facts import facts_from_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ddp_play.planning.job_secrets import Known

OLDEST_PYTHON = (3, 9)


def parse_facts(stdout: str, stderr: str, *, sent: float, received: float, inventory: dict[str, Any]) -> dict[str, Any]:
    """Host facts from the program's output, with its clock offset and `inventory`, the host's variables.

    `sent` and `received`: times of the request and its answer, in epoch seconds of the controller. Raises HostNotReady.
    """
    try:
        facts = parse_answer(stdout, stderr)
        _check_python(str(facts["python_version"]))
        # The host read its clock between `sent` and `received`: within this interval the offset is 0.
        facts["clock_offset_s"] = round(facts["clock"] - min(max(facts["clock"], sent), received), 3)
        facts["inventory"] = inventory
        facts_from_json("", facts)
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise HostNotReady(
            f"the host's answer is not what ddp-play's program sends ({type(error).__name__}: {error})",
            hint="run the command again; if this persists, look for what changes the output of commands on this host",
        ) from error
    return facts


def refuse_secret_arguments(arguments: Iterable[str], known: Known) -> None:
    """HostNotReady if a connection's arguments hold a secret: they are stored in the bundle, to open channels again."""
    if known.in_arguments(arguments):
        raise HostNotReady(
            "the arguments of its connection (such as ansible_ssh_common_args) contain a value from a vault; they "
            "would be stored in the run's bundle, and process lists show them",
            hint="use an SSH key, also for the jump host, or ansible_password for a password of the host itself; "
            "keep private arguments in ~/.ssh/config",
        )


def _check_python(version: str) -> None:
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_PYTHON:
        raise HostNotReady(f"Python {version} is too old", hint="3.9 or newer is needed on hosts")


def parse_answer(stdout: str, stderr: str) -> dict[str, Any]:
    """JSON between the markers in the program's output; other output, such as a login shell's, is ignored."""
    match = re.search(re.escape(BEGIN) + "(.*?)" + re.escape(END), stdout, re.DOTALL)
    if not match:
        lines = (stderr.strip() or stdout.strip()).splitlines()
        raise HostNotReady(lines[-1] if lines else "the host gave no answer")
    answer: dict[str, Any] = json.loads(match[1])
    return answer


def only_cached() -> bool:
    """Whether the command requested cached host facts instead of discovery."""
    return bool(os.environ.get(USE_CACHED_ENV))


def cached_facts(hosts: list[str], discovered: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Write discovered facts to the cache, or return the cached facts of `hosts` for `plan --cached`."""
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
        raise UsageError(f"no cached facts of {shown}", hint="run ddp-play plan without --cached")
    return {host: known[host] for host in hosts}
