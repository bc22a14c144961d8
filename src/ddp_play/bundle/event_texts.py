"""Lines of text that tell a person about an event of a run, and about its plan. Pure.

An event of an unknown type has no line: a later version may have written it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.network_traffic import bytes_text
from ddp_play.bundle.summary import counted, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Level(StrEnum):
    """How much a line matters; views choose the colour."""

    DETAIL = "detail"
    NOTICE = "notice"
    WARNING = "warning"
    FAILURE = "failure"


# A line and its level.
EventLine = tuple[str, Level]
PHASES_SHOWN = ("preparing", "running", "collecting")
HOST_STATES = {"silent": "does not answer", "back": "is back", "lost": "is lost"}
TASK_LEVELS = {"failed": Level.FAILURE, "unreachable": Level.FAILURE, "changed": Level.NOTICE}


def event_lines(event: Mapping[str, Any]) -> list[EventLine]:
    """Lines about one event of the journal."""
    found = LINES.get(str(event.get("type")))
    return found(event) if found else []


def plan_lines(plan: Mapping[str, Any]) -> list[EventLine]:
    """Lines about the content of plan.json: ranks, hosts, network, then its warnings."""
    summary = (
        f"{counted(plan['world_size'], 'rank')} on {counted(len(plan['hosts']), 'host')}, "
        f"{plan['backend']} over {plan['fabric']} ({plan['network']}), {plan['init_method']}, head {plan['head']}"
    )
    warnings = [(f"warning: {text}", Level.NOTICE) for text in plan["warnings"]]
    return [
        (summary, Level.DETAIL),
        *warnings,
        *((f"left out {name}: {why}", Level.NOTICE) for name, why in plan["left_out"]),
    ]


def rank_failed(event: Mapping[str, Any]) -> bool:
    """Does this event of type `rank` tell that the rank failed, and not because ddp-play ended it?"""
    state = event["state"]
    return bool(state == "lost" or (state == "exited" and not event["ok"] and not event["stopped"]))


def shown_state(event: Mapping[str, Any]) -> str:
    """The state of the rank that an event of type `rank` is about: `failed`, `stopped`, or as the host reported it."""
    return "failed" if rank_failed(event) else "stopped" if event["stopped"] else str(event["state"])


def host_state(event: Mapping[str, Any]) -> str:
    """What an event of type `host` says of the host: `is lost: silent for 31 s`."""
    state = str(event.get("state"))
    why = f": {event['why']}" if event.get("why") else ""
    return HOST_STATES.get(state, state) + why


def _phase(event: Mapping[str, Any]) -> list[EventLine]:
    return [(event["phase"], Level.DETAIL)] if event["phase"] in PHASES_SHOWN else []


def _rank(event: Mapping[str, Any]) -> list[EventLine]:
    return [(f"{event['host']}:{event['rank']}: {event['how']}", Level.FAILURE)] if rank_failed(event) else []


def _host(event: Mapping[str, Any]) -> list[EventLine]:
    more = "; trying again" if event["state"] == "silent" else ""
    return [(f"host {event['host']} {host_state(event)}{more}", Level.NOTICE)]


def _restart(event: Mapping[str, Any]) -> list[EventLine]:
    why = ": ".join(filter(None, (event["reason"], event.get("error"))))
    first = (f"restarting as attempt {event['attempt']}: {why}", Level.WARNING)
    return [first, *_retired({"hosts": event["retired"]}), *_replacement(event["new"])]


def _retired(event: Mapping[str, Any]) -> list[EventLine]:
    return [(f"host {host} is retired: {why}", Level.NOTICE) for host, why in event["hosts"].items()]


def _replaced(event: Mapping[str, Any]) -> list[EventLine]:
    unfit = [(f"host {host} is not fit for this job: {why}", Level.NOTICE) for host, why in event["hosts"].items()]
    return [*unfit, *_replacement(event["new"])]


def _replacement(new: list[str]) -> list[EventLine]:
    return [(f"replacement host: {', '.join(new)}", Level.NOTICE)] if new else []


def _waiting(event: Mapping[str, Any]) -> list[EventLine]:
    lines = []
    if event.get("reason"):
        lines.append((f"waiting for slots: {event['reason']}", Level.NOTICE))
    if event.get("for_hosts"):
        hosts, longest = ", ".join(event["for_hosts"]), duration(event["at_most_s"])
        lines.append((f"waiting until no rank can be alive on {hosts}: at most {longest}", Level.NOTICE))
    return lines


def _stop(event: Mapping[str, Any]) -> list[EventLine]:
    how = "now" if event["now"] else f"within {event['grace_s']:.0f} s"
    return [(f"stopping all ranks {how}: {event['reason']}", Level.NOTICE)]


def _task(event: Mapping[str, Any]) -> list[EventLine]:
    level = TASK_LEVELS.get(event["status"], Level.DETAIL)
    detail = f": {event['message']}" if event["message"] and level is Level.FAILURE else ""
    return [(f"task {event['name']} | {event['host']}: {event['status']}{detail}", level)]


LINES: dict[str, Callable[[Mapping[str, Any]], list[EventLine]]] = {
    "phase": _phase,
    "rank": _rank,
    "host": _host,
    "restart": _restart,
    "retired": _retired,
    "replaced": _replaced,
    "waiting": _waiting,
    "queue": lambda event: [(f"job {event['job']}: {event['text']}", Level.NOTICE)],
    "stop": _stop,
    "task": _task,
    "collected": lambda event: [(f"collected so far: {bytes_text(event['bytes'])} of artifacts", Level.DETAIL)],
    "transport": lambda event: [(event["words"], Level.DETAIL)],
    "warning": lambda event: [(f"warning: {event['message']}", Level.WARNING)],
}
