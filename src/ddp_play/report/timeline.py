"""Timeline of a run: its phases, and for each host and attempt when ranks ran there and how they ended. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.event_texts import host_state
from ddp_play.bundle.summary import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ddp_play.bundle.outcome import RankOutcome
    from ddp_play.report.run_attempts import Attempt, RunStory

MOST_HOSTS = 64
# From the worst: what a bar of several ranks shows.
STATES = ("lost", "failed", "stopped", "running", "ok", "created")


def timeline(story: RunStory) -> dict[str, Any]:
    """Document of the timeline. Times are seconds since the run was created."""
    rows = [_host_row(host, story) for host in _hosts(story.attempts)]
    odd = [row for row in rows if row["marks"] or any(bar["state"] in STATES[:2] for bar in row["bars"])]
    kept = {row["host"] for row in [*odd, *(row for row in rows if row not in odd)][:MOST_HOSTS]}
    return {
        "length": round(story.length, 3),
        "phases": phases(story),
        "hosts": [row for row in rows if row["host"] in kept],
        "hosts_left_out": len(rows) - len(kept),
    }


def phases(story: RunStory) -> list[dict[str, Any]]:
    """Phases one after the other. `starting` ends with the first event of a supervisor."""
    found: list[dict[str, Any]] = []
    name, attempt, since = "starting", 1, story.created
    for event in story.events:
        following = _phase_of(event)
        at = float(event["time"])
        if following and following != name:
            _close(found, name, attempt, since - story.created, at - story.created)
            name, since = following, at
        if event["type"] == "restart":
            attempt = int(event.get("attempt") or attempt + 1)
    if name != "ended":
        _close(found, name, attempt, since - story.created, story.length)
    return found


def _phase_of(event: Mapping[str, Any]) -> str:
    if event["type"] == "phase":
        return str(event.get("phase") or "")
    return {"waiting": "waiting", "restart": "preparing", "stop": "stopping", "ended": "ended"}.get(event["type"], "")


def _close(found: list[dict[str, Any]], name: str, attempt: int, since: float, until: float) -> None:
    if name != "ended" and until > since:
        found.append({"phase": name, "attempt": attempt, "from": round(since, 3), "to": round(until, 3)})


def phase_seconds(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Seconds of each phase, over all attempts."""
    found: dict[str, float] = {}
    for row in rows:
        found[row["phase"]] = round(found.get(row["phase"], 0.0) + row["to"] - row["from"], 3)
    return found


def _hosts(attempts: Sequence[Attempt]) -> list[str]:
    return list(dict.fromkeys(host for attempt in attempts for host in attempt.hosts))


def _host_row(host: str, story: RunStory) -> dict[str, Any]:
    bars = [bar for attempt in story.attempts if host in attempt.hosts and (bar := _bar(host, attempt, story))]
    marks = [
        {"at": round(float(event["time"]) - story.created, 3), "text": host_state(event)}
        for event in story.events
        if event["type"] == "host" and event.get("host") == host
    ]
    return {"host": host, "bars": bars, "marks": marks}


def _bar(host: str, attempt: Attempt, story: RunStory) -> dict[str, Any] | None:
    """From the start of the host's first rank to the end of its last one; None if none started."""
    rows = [row for row in attempt.outcomes if row.host == host]
    begins = [row.started - story.created for row in rows if row.started]
    if not begins:
        return None
    ends = [row.ended - story.created if row.ended else attempt.ended for row in rows if row.started]
    states = [rank_state(row) for row in rows]
    worst = next(state for state in STATES if state in states)
    counts = ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states)
    ranks = counted(len(rows), "rank")
    text = f"{ranks} {worst}" if states.count(worst) == len(rows) else f"{ranks}: {counts}"
    return {"attempt": attempt.number, "from": round(min(begins), 3), "to": round(max([*ends, *begins]), 3),
            "state": worst, "text": text}  # fmt: skip


def rank_state(row: RankOutcome) -> str:
    """One of STATES."""
    if row.ok:
        return "ok"
    if row.state == "lost":
        return "lost"
    if row.stopped:
        return "stopped"
    if row.failed:
        return "failed"
    return row.state if row.state in STATES else "failed"
