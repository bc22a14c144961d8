"""Containers of attempts on this host: which nobody owns any more, and their removal by exact id."""

from __future__ import annotations

import time
from typing import Any, Dict, Iterator, List

from . import docker_socket
from .protocol import split_run_key
from .run_directory import HostRun, bases
from .running_guards import guards

RUN_LABEL = "ddp-play.run"
KEY_LABEL = "ddp-play.key"
# The controller waits 60 s for the whole clean-up: less than that for the engine.
PING_S, REMOVE_S = 10.0, 35.0


def _attended() -> Iterator[HostRun]:
    for root in (base / "runs" for base in bases()):
        yield from (place for place in map(HostRun, root.glob("*/*")) if place.attended())


def orphan_containers() -> List[Dict[str, Any]]:
    """Containers with the label of ddp-play that no running guard of any user and no controller's channel owns."""
    try:
        listed = docker_socket.containers(RUN_LABEL)
    except docker_socket.EngineError:
        return []
    # Read after the containers: those of a run that is being prepared come before its guard.
    living = {(place.run_key, place.root.name.partition(".")[2]) for place in (*guards().values(), *_attended())}
    rows = []
    for container in listed:
        labels = container.get("Labels") or {}
        key = labels.get(KEY_LABEL) or labels.get(RUN_LABEL, "")  # an earlier version had no key
        host = labels.get("ddp-play.host", "")
        if (key, host) not in living:
            run, token = split_run_key(key)
            rows.append(
                {
                    "id": container.get("Id", ""),
                    "run": run,
                    "token": token,
                    "host": host,
                    "attempt": labels.get("ddp-play.attempt", ""),
                    "owner": labels.get("ddp-play.owner", ""),
                    "state": container.get("State"),
                }
            )
    return rows


def used_containers(ids: List[str]) -> List[str]:
    """Those of these containers that a running guard or a channel owns by now."""
    try:
        listed = {str(row.get("Id", "")) for row in docker_socket.containers(RUN_LABEL)} if ids else set()
    except docker_socket.EngineError:
        return []  # their removal says why
    used = listed - {row["id"] for row in orphan_containers()} if listed else set()
    return [name for name in ids if name in used]


def remove_containers(names: List[str]) -> List[str]:
    """Remove containers; return a message per one that is left. An engine that hangs costs the time of one question."""
    problem = docker_socket.silence(PING_S) if names else ""
    if problem:
        return ["container %s: %s" % (name, problem) for name in names]
    left, deadline = [], time.monotonic() + REMOVE_S
    for name in names:
        try:
            docker_socket.remove(name, max(1.0, deadline - time.monotonic()))
        except docker_socket.EngineError as error:
            left.append("container %s: %s" % (name, error))
    return left


def names_in(spec: Dict[str, Any]) -> List[str]:
    """Names of an attempt's containers."""
    agent = spec.get("agent")
    units = [*spec.get("ranks", []), *([agent] if agent else [])]
    return [unit["container"] for unit in units if unit.get("container")]
