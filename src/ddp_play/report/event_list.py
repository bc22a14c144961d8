"""Events of a run as sentences. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.event_texts import event_lines
from ddp_play.bundle.network_traffic import bytes_text
from ddp_play.bundle.summary import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ddp_play.report.run_attempts import RunStory

MOST_EVENTS, LONGEST = 300, 2000
PLAIN = frozenset({"phase", "rank", "task", "play", "checked", "prepared", "started", "source_sent"})


def event_rows(story: RunStory) -> dict[str, Any]:
    """Events with their time since the run was created. Of too many, those about ranks that are well go first."""
    events = list(story.events)
    if len(events) > MOST_EVENTS:
        events = [event for event in events if not _is_ordinary(event)]
    if len(events) > MOST_EVENTS:
        events = [*events[: MOST_EVENTS // 2], *events[-MOST_EVENTS // 2 :]]
    rows = [
        {"at": round(float(event["time"]) - story.created, 3), "type": event["type"], "text": _text(event),
         "is_plain": _is_plain(event)}
        for event in events
    ]  # fmt: skip
    return {"rows": rows, "left_out": len(story.events) - len(rows)}


def _is_ordinary(event: Mapping[str, Any]) -> bool:
    good = event.get("ok") or event.get("state") in ("created", "running")
    return bool(event["type"] == "rank" and good) or (
        event["type"] == "task" and event.get("status") in ("ok", "skipped")
    )


def _is_plain(event: Mapping[str, Any]) -> bool:
    """Nothing that a reader looks for."""
    bad = event.get("status") in ("failed", "unreachable", "stopped") or (
        event["type"] == "rank" and event.get("state") in ("exited", "lost") and not event.get("ok")
    )
    return event["type"] in PLAIN and not bad


def _text(event: Mapping[str, Any]) -> str:
    try:
        words = WORDS.get(event["type"])
        found = words(event) if words else "; ".join(line for line, _ in event_lines(event))
    except (LookupError, TypeError, ValueError, AttributeError):  # an event of another version
        found = ""
    return found[:LONGEST] or _fields(event)


def _fields(event: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in event.items() if name not in ("time", "type"))[:500]


def _rank(event: Mapping[str, Any]) -> str:
    how = f", {event['how']}" if event.get("how") else ""
    return f"rank {event['rank']} on {event['host']}: {event['state']}{how}"


def _source_sent(event: Mapping[str, Any]) -> str:
    size, sent = bytes_text(event["archive_bytes"]), bytes_text(event["bytes"])
    return f"source of {size} sent to {counted(event['hosts'], 'host')} in {event['duration_s']:.1f} s: {sent} in all"


# Events of which views show no line, or not of all.
WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "phase": lambda event: str(event["phase"]),
    "play": lambda event: f"play {event['name']}",
    "rank": _rank,
    "checked": lambda event: (
        f"hosts checked in {event['duration_s']:.1f} s, {counted(event['refused'], 'host')} refused"
    ),
    "source_sent": _source_sent,
    "prepared": lambda event: f"{counted(len(event['hosts']), 'host')} prepared, head port {event['port']}",
    "started": lambda event: f"{counted(event['world_size'], 'rank')} started",
    "warning": lambda event: str(event["message"]),
    "evidence": lambda event: str(event["message"]),
    "ended": lambda event: f"{event['status']}: {event['message']}",
}
