"""Progress of a run between its attempts: the newest file that ddp_job_progress names, as the hosts report it."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import read_json
from ddp_play.bundle.summary import duration
from ddp_play.errors import DdpPlayError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.bundle.outcome import Verdict
    from ddp_play.bundle.writer import Bundle
    from ddp_play.planning.plan_document import Plan
    from ddp_play.run.host_links import Gang

KIND = "no_progress"
# The run ends after this many attempts in a row without progress. One alone may have ended before its first checkpoint.
MAX_IDLE = 2
READ_S = 30.0
SILENCE_S = 20.0
ASK = "ddp_job_progress"

# Newest file of each host (None: it has none), as in run.json: path, mtime_ns, size, written (controller time).
Newest = dict[str, dict[str, Any] | None]


def note_start(gang: Gang, plan: Plan, bundle: Bundle) -> None:
    """Write the newest files before the first attempt to run.json."""
    if newest := read_newest(gang, plan):
        bundle.update_run(progress={"newest": newest, "idle_attempts": 0})


def note_end(gang: Gang, plan: Plan, bundle: Bundle, last: Verdict) -> Verdict | None:
    """Write the newest files after an attempt to run.json. The verdict, if the run ends because it makes no progress.

    `last`: the verdict of the attempt. Its exit code stays.
    """
    newest = read_newest(gang, plan)
    if not newest:
        return None
    progress = after_attempt(read_json(bundle.paths.run).get("progress") or {}, newest)
    bundle.update_run(progress=progress)
    return verdict_without_progress(progress, last, plan, bundle.paths.run_id)


def read_newest(gang: Gang, plan: Plan) -> Newest:
    """The newest file of each host that answers; empty if the job names none."""
    if not any(host.progress for host in plan.hosts):
        return {}
    for link in gang.links:  # `ask` leaves those that are lost with their reply from before the attempt
        link.replies.pop("progressed", None)
    with contextlib.suppress(DdpPlayError):  # the other hosts have answered: their replies count
        gang.ask("progress", "progressed", deadline_s=READ_S, silence_s=SILENCE_S)
    answers = {link.name: link.replies["progressed"] for link in gang.links if "progressed" in link.replies}
    return {name: _row(answer.get("newest")) for name, answer in answers.items()}


def _row(newest: dict[str, Any] | None) -> dict[str, Any] | None:
    if newest is None:
        return None
    kept = {name: newest[name] for name in ("path", "mtime_ns", "size")}
    return {**kept, "written": time.time() - float(newest.get("age_s") or 0)}


def after_attempt(known: Mapping[str, Any], newest: Newest) -> dict[str, Any]:
    """`progress` of run.json after an attempt. Without an answer the count of idle attempts stays."""
    before: Newest = known.get("newest") or {}
    idle = int(known.get("idle_attempts") or 0)
    if newest:
        idle = 0 if _changed(before, newest) else idle + 1
    return {"newest": {**before, **newest}, "idle_attempts": idle}


def _changed(before: Newest, after: Newest) -> bool:
    """Has any host a file that is not the one from before? A new host is compared with the newest of all hosts."""
    latest = _latest(before)[1]
    return any(row is not None and _identity(row) != _identity(before.get(host, latest)) for host, row in after.items())


def _identity(row: dict[str, Any] | None) -> tuple[int, int] | None:
    """Not the path: hosts may mount the same directory at different places."""
    return (row["mtime_ns"], row["size"]) if row else None


def _latest(newest: Newest) -> tuple[str, dict[str, Any] | None]:
    """(host, newest file of all hosts)."""
    rows = [(host, row) for host, row in newest.items() if row is not None]
    return max(rows, key=lambda item: item[1]["mtime_ns"], default=("", None))


def verdict_without_progress(progress: Mapping[str, Any], last: Verdict, plan: Plan, run_id: str) -> Verdict | None:
    """The verdict of a run that ends for lack of progress; None if it may go on."""
    idle = int(progress["idle_attempts"])
    if idle < MAX_IDLE:
        return None
    host, row = _latest(progress["newest"])
    if row is None:
        pattern = next(item.progress for item in plan.hosts if item.progress)
        what = f"no host has a file that matches {pattern} ({ASK})"
    else:
        age = duration(max(0.0, time.time() - row["written"]))
        what = f"the newest file of {ASK} is still {row['path']} on {host} ({row['size']} bytes, written {age} ago)"
    return dataclasses.replace(
        last,
        kind=KIND,
        message=f"{idle} attempts in a row made no progress: {what}; the last one: {last.message}",
        hint=f"compare the attempts: ddp-play logs {run_id} --attempt N; start a new run when the cause is mended, or "
        f"correct {ASK} if ranks write other files",
    )
