"""Host facts from the answers of hosts, asked in waves, and the cache of host facts."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.plugin_variables import FACTS_ENV, USE_CACHED_ENV
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.errors import HostNotReady, UsageError
from ddp_play.guard.protocol import BEGIN, END
from ddp_play.planning.discovery_order import next_wave
from ddp_play.planning.host_facts import clock_offset, facts_from_json
from ddp_play.planning.host_names import refuse_names
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ddp_play.planning.job import Job
    from ddp_play.planning.job_secrets import Known

OLDEST_PYTHON = (3, 9)


def checked_facts(answer: bytes, *, sent: float, received: float, inventory: dict[str, Any]) -> dict[str, Any]:
    """Host facts from a host's answer, with its clock offset and `inventory`, the host's variables.

    `sent` and `received`: times of the request and its answer, in epoch seconds of the controller. Raises HostNotReady.
    """
    try:
        facts: dict[str, Any] = json.loads(answer)
        _check_python(str(facts["python_version"]))
        facts["clock_offset_s"] = round(clock_offset(facts["clock"], sent=sent, received=received), 3)
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
        raise HostNotReady(
            f"Python {version} is too old: 3.9 or newer is needed",
            hint="name a newer one with ansible_python_interpreter, or install one there",
        )


def parse_answer(stdout: str, stderr: str) -> dict[str, Any]:
    """JSON between the markers in the program's output; other output, such as a login shell's, is ignored."""
    match = re.search(re.escape(BEGIN) + "(.*?)" + re.escape(END), stdout, re.DOTALL)
    if not match:
        lines = (stderr.strip() or stdout.strip()).splitlines()
        raise HostNotReady(lines[-1] if lines else "the host gave no answer")
    answer: dict[str, Any] = json.loads(match[1])
    return answer


def our_variables(variables: Iterable[str]) -> list[str]:
    """Names of the ddp_* variables among those of a host."""
    return sorted(name for name in variables if name.startswith("ddp_") and name != "ddp_job_result")


def discover_in_waves(
    job: Job, hosts: list[str], ask: Callable[[Job, list[str]], dict[str, dict[str, Any]]]
) -> dict[str, dict[str, Any]]:
    """Facts or problem by host, in the play's order, of as many hosts as the job needs.

    With `plan --cached` they are those of the last discovery; else they become the cached ones. UsageError for a name
    that no host can have.
    """
    refuse_names(hosts)
    path = Path(os.environ[FACTS_ENV]) if os.environ.get(FACTS_ENV) else None
    cached = bool(os.environ.get(USE_CACHED_ENV)) and path is not None
    known = read_json(path) if cached and path is not None else {}
    rows: dict[str, dict[str, Any]] = {}
    while wave := next_wave(job, hosts, rows, _num_usable(job, rows)):
        rows |= _from_cache(known, wave) if cached else ask(job, wave)
    if path is not None and not cached:
        _keep(path, {**read_json(path), **{name: row for name, row in rows.items() if row.get("facts")}})
    return {host: rows[host] for host in hosts if host in rows}


def _keep(path: Path, rows: dict[str, Any]) -> None:
    """Keep facts for `plan --cached`; a full or read-only disk is no reason not to plan."""
    with contextlib.suppress(OSError):
        write_json(path, rows)


def _num_usable(job: Job, rows: dict[str, dict[str, Any]]) -> int:
    found = [row["facts"] for name, row in rows.items() if row.get("facts") and name not in job.spares]
    return sum(not facts.get("drained") for facts in found)


def _from_cache(known: dict[str, Any], hosts: list[str]) -> dict[str, dict[str, Any]]:
    missing = [host for host in hosts if host not in known]
    if missing:
        raise UsageError(f"no cached facts of {short_list(missing, 5)}", hint="run ddp-play plan without --cached")
    return {host: known[host] for host in hosts}
