"""Requeue of a run: between two allocations it has no hosts, and its next start goes on with the next attempt.

run.json then has the status `waiting` and `requeue`. Each attempt has a number of its own, also across allocations, so
that ports, rendezvous files and what is left on a host are never taken for those of another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import read_json, write_json
from ddp_play.bundle.run_lookup import has_ended
from ddp_play.guard.protocol import run_key
from ddp_play.planning.plan_document import plan_from_json
from ddp_play.run.host_spec import rows_of_shared

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.bundle.writer import Bundle

FIELD = "requeue"
STOPPED = "stopped while the run waited for its next attempt"


def is_possible(paths: RunPaths) -> bool:
    """Does the run's engine give it hosts again, if it ends without an end of the run?"""
    return bool(read_json(paths.allocation).get("requeues"))


def is_left(paths: RunPaths) -> bool:
    """Has an attempt ended in order, and the next one waits for other hosts?"""
    document = read_json(paths.run)
    return bool(document.get(FIELD)) and not has_ended(document)


def reason(paths: RunPaths) -> str:
    """Why the last attempt was left; empty if the run is not left."""
    return str(read_json(paths.run)[FIELD]["reason"]) if is_left(paths) else ""


def leave(bundle: Bundle, why: str, *, attempt: int) -> None:
    """Write that the run has no hosts now. `attempt`: the last one that hosts know."""
    bundle.update_run(status=str(RunStatus.WAITING), directories={}, attempt=attempt, requeue={"reason": why})


def next_attempt(document: dict[str, Any]) -> int:
    """Number of the attempt that the next allocation begins with."""
    return int(document.get("attempt") or 0) + 1


def left_on_shared(paths: RunPaths) -> dict[str, list[str]]:
    """Rows for run.json about what attempts share and only the last one removes, if none follows: by host."""
    document = read_json(paths.run)
    attempts = document.get("attempts") or ()
    plan = read_json(paths.attempt(int(attempts[-1]["attempt"])).plan) if attempts else {}
    key = run_key(paths.run_id, str(document.get("token") or ""))
    return rows_of_shared(plan_from_json(plan), key, "not collected, because no attempt followed") if plan else {}


def note_left_on_shared(paths: RunPaths) -> None:
    """Add to run.json what attempts share, because none follows that would collect it."""
    document = read_json(paths.run)
    known = document.get("left_behind") or {}
    left = {host: list(dict.fromkeys([*known.get(host, []), *rows])) for host, rows in left_on_shared(paths).items()}
    if left:
        write_json(paths.run, {**document, "left_behind": {**known, **left}})
