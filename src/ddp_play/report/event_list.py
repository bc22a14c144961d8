"""Events of a run as sentences. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ddp_play.bundle.summary import counted, duration
from ddp_play.planning.short_lists import short_list

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ddp_play.report.run_attempts import RunStory

MOST_EVENTS = 300
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
    bad = event.get("status") in ("failed", "unreachable") or (
        event["type"] == "rank" and event.get("state") in ("exited", "lost") and not event.get("ok")
    )
    return event["type"] in PLAIN and not bad


def _text(event: Mapping[str, Any]) -> str:
    words = WORDS.get(event["type"])
    try:
        return (words(event) if words else "")[:2000] or _fields(event)
    except (LookupError, TypeError, ValueError, AttributeError):  # an event of another version
        return _fields(event)


def _fields(event: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in event.items() if name not in ("time", "type"))[:500]


def _rank(event: Mapping[str, Any]) -> str:
    how = f", {event['how']}" if event.get("how") else ""
    return f"rank {event['rank']} on {event['host']}: {event['state']}{how}"


def _host(event: Mapping[str, Any]) -> str:
    states = {"silent": "does not answer; trying again", "back": "is back", "lost": "is lost"}
    why = f": {event['why']}" if event.get("why") else ""
    return f"host {event['host']} {states.get(event['state'], event['state'])}{why}"


def _gone(hosts: Mapping[str, str]) -> str:
    return short_list([f"{host} ({why})" for host, why in hosts.items()])


def _restart(event: Mapping[str, Any]) -> str:
    retired = f"; retired: {_gone(event['retired'])}" if event["retired"] else ""
    new = f"; replacement: {short_list(event['new'])}" if event["new"] else ""
    return f"{event['reason']}: restarting as attempt {event['attempt']}{retired}{new}"


def _waiting(event: Mapping[str, Any]) -> str:
    if event.get("for_hosts"):
        hosts = short_list(event["for_hosts"])
        return f"waiting until no rank can be alive on {hosts}: at most {duration(event['at_most_s'])}"
    return f"waiting for slots: {event['reason']}"


def _stop(event: Mapping[str, Any]) -> str:
    how = "now" if event["now"] else f"within {event['grace_s']:.0f} s"
    return f"stopping all ranks {how}: {event['reason']}"


def _task(event: Mapping[str, Any]) -> str:
    return f"task {event['name']} on {event['host']}: {event['status']}" + (
        f": {event['message']}" if event["message"] else ""
    )


WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "phase": lambda event: str(event["phase"]),
    "play": lambda event: f"play {event['name']}",
    "task": _task,
    "rank": _rank,
    "host": _host,
    "restart": _restart,
    "retired": lambda event: f"retired: {_gone(event['hosts'])}",
    "replaced": lambda event: f"not fit for this job: {_gone(event['hosts'])}; replacement: {short_list(event['new'])}",
    "waiting": _waiting,
    "stop": _stop,
    "checked": lambda event: (
        f"hosts checked in {event['duration_s']:.1f} s, {counted(event['refused'], 'host')} refused"
    ),
    "prepared": lambda event: f"{counted(len(event['hosts']), 'host')} prepared, head port {event['port']}",
    "started": lambda event: f"{counted(event['world_size'], 'rank')} started",
    "transport": lambda event: str(event["words"]),
    "warning": lambda event: str(event["message"]),
    "evidence": lambda event: str(event["message"]),
    "ended": lambda event: f"{event['status']}: {event['message']}",
}
