"""What a report says, as one document: `ddp-play report --json`, and the data of the page."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ddp_play import VERSION_LINE
from ddp_play.bundle.outcome import RunStatus
from ddp_play.bundle.paths import read_json, read_rows
from ddp_play.bundle.summary import duration, headline
from ddp_play.report.environment_table import environment
from ddp_play.report.event_list import event_rows
from ddp_play.report.log_ends import hang_evidence, log_ends
from ddp_play.report.metric_curves import metric_panels
from ddp_play.report.missing_parts import missing_parts
from ddp_play.report.plan_rows import interfaces, plan_summary, traffic
from ddp_play.report.run_attempts import read_story
from ddp_play.report.sample_panels import sample_panels
from ddp_play.report.timeline import phase_seconds, rank_state, timeline
from ddp_play.report.version_rows import versions

if TYPE_CHECKING:
    from ddp_play.bundle.outcome import RankOutcome
    from ddp_play.bundle.run_lookup import Run
    from ddp_play.report.run_attempts import RunStory

MOST_ARTIFACTS = 50


def report_document(run: Run) -> dict[str, Any]:
    """The document of a run, from its bundle alone. Times are seconds since the run was created."""
    story = read_story(run)
    newest = story.attempts[-1]
    plan = read_json(run.paths.plan)
    first = (*newest.failed[:2], 0)
    shown = timeline(story)
    document = {
        "run": _run(story),
        "timeline": {**shown, "phase_seconds": phase_seconds(shown["phases"])},
        "metrics": metric_panels(story.attempts, end=story.length, first=first),
        "samples": sample_panels(story, interfaces(plan), first=first),
        "traffic": traffic(run.document, plan),
        "ranks": [_rank(row, story) for row in newest.outcomes],
        "environment": environment(newest),
        "events": event_rows(story),
        "logs": log_ends(story.attempts),
        "evidence": hang_evidence(story.attempts),
        "plan": plan_summary(plan),
        "versions": versions(story),
        "artifacts": _artifacts(story),
    }
    return {**document, "missing": missing_parts(story, document), "made": time.time(), "made_by": VERSION_LINE}


def _run(story: RunStory) -> dict[str, Any]:
    document, run = story.run.document, story.run
    known = {
        name: document.get(name)
        for name in ("job", "owner", "controller", "argv", "verdict", "exit_code", "world_size")
    }
    source = document.get("source") or {}
    return {
        **known, "id": run.paths.run_id, "status": run.status_text, "state": state(run), "sentence": sentence(story),
        "hint": _hint(story.run),
        "created": story.created, "length": round(story.length, 3), "source": source,
        "hosts": document.get("hosts") or [], "bundle": str(run.paths.root),
        "attempts": [
            {"attempt": one.number, "hosts": list(one.hosts), "from": round(one.began, 3), "to": round(one.ended, 3),
             **_fate(story, one.number)} for one in story.attempts
        ],
    }  # fmt: skip


def _fate(story: RunStory, attempt: int) -> dict[str, Any]:
    rows = [row for row in story.run.document.get("attempts") or () if row.get("attempt") == attempt]
    row = rows[-1] if rows else {}
    return {"message": row.get("message") or "", "reason": row.get("reason") or "", "retired": row.get("retired") or {}}


def state(run: Run) -> str:
    """`pass`, `fail`, `warn` (stopped), or `unknown` for a run that has not ended."""
    if not run.status.final:
        return "unknown"
    return {RunStatus.SUCCEEDED: "pass", RunStatus.STOPPED: "warn"}.get(run.status, "fail")


def sentence(story: RunStory) -> str:
    """The verdict in a sentence."""
    run = story.run
    took = duration(story.length) + (f", in {len(story.attempts)} attempts" if len(story.attempts) > 1 else "")
    message = str((run.document.get("verdict") or {}).get("message") or "").partition("\n")[0]
    if run.status.final:
        return f"{run.paths.run_id} {run.status} after {took}" + (f": {message}" if message else "")
    if run.attended:
        return f"{run.paths.run_id} has not ended: {run.status} for {took}"
    return f"{run.paths.run_id} has not ended, and no process supervises it: last heard of after {took}, {run.status}"


def _hint(run: Run) -> str:
    """The hint of the verdict, or the command that takes over a run that nobody supervises."""
    if run.unattended:
        return f"ddp-play attach {run.paths.run_id}"
    return str((run.document.get("verdict") or {}).get("hint") or "")


def _rank(row: RankOutcome, story: RunStory) -> dict[str, Any]:
    result = read_json(story.run.paths.result(row.rank))
    verdict = story.run.document.get("verdict") or {}
    part = "cause" if row.rank == verdict.get("rank") else ""
    return {
        "rank": row.rank, "host": row.host, "state": rank_state(row), "how": row.words(),
        "part": "collateral" if row.rank in (verdict.get("collateral") or ()) else part,
        "detail": row.detail, "exit_code": row.exit_code, "signal": row.signal, "oom": row.oom,
        "from": round(row.started - story.created, 3) if row.started else None,
        "to": round(row.ended - story.created, 3) if row.ended else None,
        "log_bytes": row.log_bytes, "log_complete": row.log_complete,
        "result": headline(result), "kernel": list(row.kernel),
    }  # fmt: skip


def _artifacts(story: RunStory) -> dict[str, Any]:
    rows = read_rows(story.run.paths.artifacts_manifest)
    kinds = {"host": str, "path": str, "size": int, "sha256": str, "link_to": str}
    shown = [
        {name: row[name] if isinstance(row.get(name), kind) else None for name, kind in kinds.items()}
        for row in rows[:MOST_ARTIFACTS]
    ]
    return {"rows": shown, "left_out": len(rows) - len(shown)}
