"""The attempts of a run as its bundle has them, with their ranks; of a run without a supervisor, as its events tell."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.journal import read_events
from ddp_play.bundle.outcome import RankOutcome
from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.errors import UsageError
from ddp_play.planning.plan_document import ranks_by_host

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ddp_play.bundle.run_lookup import Run


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. Times are seconds since the run was created."""

    number: int
    paths: RunPaths
    created: float  # of the run, Unix time
    began: float
    ended: float
    hosts: Mapping[str, range] = field(default_factory=dict)
    outcomes: tuple[RankOutcome, ...] = ()
    verdict: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ranks(self) -> tuple[int, ...]:
        """All its ranks."""
        return tuple(rank for ranks in self.hosts.values() for rank in ranks)

    @property
    def failed(self) -> tuple[int, ...]:
        """Ranks that failed or were lost, the first cause first."""
        bad = [row.rank for row in self.outcomes if row.failed or row.state == "lost"]
        first = self.verdict.get("rank")
        return tuple(sorted(bad, key=lambda rank: (rank != first, rank)))


@dataclass(frozen=True, slots=True)
class RunStory:
    """A run's document, its events, its attempts, and when it ended or was last heard of (Unix time)."""

    run: Run
    events: tuple[dict[str, Any], ...]
    attempts: tuple[Attempt, ...]
    created: float
    end: float

    @property
    def length(self) -> float:
        """Seconds from its creation to its end."""
        return max(0.0, self.end - self.created)


def read_story(run: Run) -> RunStory:
    """Read it from the bundle."""
    events = tuple(event for event in read_events(run.paths.events) if _is_event(event))
    created = float(run.document.get("created") or (events[0]["time"] if events else 0.0))
    end = _end(run, events, created)
    newest = int(run.document.get("attempt") or 1)
    attempts = tuple(_attempt(run, number, events, created, end, newest=newest) for number in range(1, newest + 1))
    return RunStory(run, events, attempts, created, end)


def _is_event(event: Any) -> bool:
    return isinstance(event, dict) and type(event.get("time")) in (int, float) and isinstance(event.get("type"), str)


def _end(run: Run, events: Sequence[Mapping[str, Any]], created: float) -> float:
    """When it ended; now if it goes on; without a supervisor, the newest that is known of it."""
    if ended := run.document.get("ended"):
        return float(ended)
    if run.attended:
        return time.time()
    known = [created, *(float(event["time"]) for event in events)]
    for path in (*run.paths.root.glob("metrics/*"), *run.paths.root.glob("logs/*"), *run.paths.root.glob("samples/*")):
        with suppress(OSError):
            known.append(path.stat().st_mtime)
    return max(known)


def _attempt(
    run: Run, number: int, events: Sequence[Mapping[str, Any]], created: float, end: float, *, newest: int
) -> Attempt:
    is_newest = number == newest
    paths = run.paths if is_newest else run.paths.attempt(number)
    rows = {row.get("attempt"): row for row in run.document.get("attempts") or () if isinstance(row, dict)}
    row = rows.get(number) or {}
    document = run.document if is_newest else read_json(paths.outcome)
    first, last = _times_of(events, number)
    began = float((run.document.get("started") if is_newest else row.get("started")) or first or created)
    ended = float((None if is_newest else row.get("ended")) or last or end)
    hosts = _hosts(read_json(paths.plan))
    outcomes = _outcomes(document) or _outcomes_of(_events_of(events, number), hosts)
    return Attempt(number, paths, created, began - created, ended - created, hosts, outcomes,
                   document.get("verdict") or {})  # fmt: skip


def _hosts(plan: dict[str, Any]) -> dict[str, range]:
    try:
        return ranks_by_host(plan) if plan else {}
    except (UsageError, LookupError, TypeError):
        return {}


def _outcomes(document: Mapping[str, Any]) -> tuple[RankOutcome, ...]:
    known = RankOutcome.__dataclass_fields__
    rows = [row for row in document.get("ranks") or () if isinstance(row, dict)]
    return tuple(RankOutcome(**{name: value for name, value in row.items() if name in known}) for row in rows)


def _events_of(events: Sequence[Mapping[str, Any]], attempt: int) -> list[Mapping[str, Any]]:
    """Events of the attempt: those between the announcements of it and of the next."""
    found, number = [], 1
    for event in events:
        if event["type"] == "restart":
            number = int(event.get("attempt") or number + 1)
        if number == attempt:
            found.append(event)
    return found


def _times_of(events: Sequence[Mapping[str, Any]], attempt: int) -> tuple[float | None, float | None]:
    """When its ranks were started, and when an event of them was last."""
    mine = _events_of(events, attempt)
    started = [float(event["time"]) for event in mine if event["type"] == "started"]
    ended = [float(event["time"]) for event in mine if event["type"] == "rank" and event.get("state") != "running"]
    is_over = any(event["type"] == "phase" and event.get("phase") == "collecting" for event in mine)
    return (started[0] if started else None), (max(ended) if ended and is_over else None)


def _outcomes_of(events: Sequence[Mapping[str, Any]], hosts: Mapping[str, range]) -> tuple[RankOutcome, ...]:
    """The ranks as the last events about them tell."""
    states = {rank: RankOutcome(rank, host, "created") for host, ranks in hosts.items() for rank in ranks}
    started: dict[int, float] = {}
    for event in events:
        if event["type"] != "rank" or event.get("rank") not in states:
            continue
        rank, at = event["rank"], float(event["time"])
        if event.get("state") == "running":
            started[rank] = at
        over = event.get("state") in ("exited", "lost")
        states[rank] = RankOutcome(
            rank, states[rank].host, str(event.get("state")), exit_code=0 if event.get("ok") else None,
            stopped=bool(event.get("stopped")), started=started.get(rank), ended=at if over else None,
            detail=str(event.get("how") or ""),
        )  # fmt: skip
    return tuple(states.values())
