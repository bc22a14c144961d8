"""Which bundles go and which stay, and why: computed from records, without touching a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

DAY_S = 86_400.0
NEVER_STARTED_S = DAY_S  # prune takes bundles of runs that never started after this


@dataclass(frozen=True, slots=True)
class BundleRecord:
    """What decides about one bundle.

    `since`: when the run ended, or when it was created. `unreadable`: why its run.json tells nothing.
    `uncollected`: what is still on hosts or was not collected. `link`: where it leads if it is a symbolic link.
    `has_allocation`: an engine gave its hosts, for the run alone.
    """

    run: str
    status: str = "succeeded"
    created: float = 0.0
    since: float = 0.0
    final: bool = True
    attended: bool = False
    ranks_may_live: bool = False
    never_started: bool = False
    uncollected: str = ""
    artifacts: bool = False
    link: str = ""
    unreadable: str = ""
    has_allocation: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What may go. `keep`: that many of the newest stay. `older_than_s`: younger ones stay.

    `with_artifacts`, `with_uncollected`: also bundles with artifacts, with something that was not collected.
    """

    keep: int = 0
    older_than_s: float = 0.0
    with_artifacts: bool = False
    with_uncollected: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A bundle that stays. `routine`: for its age only."""

    record: BundleRecord
    why: str
    routine: bool = False


@dataclass(frozen=True, slots=True)
class RemovalPlan:
    """Bundles that go and bundles that stay, both newest first."""

    going: tuple[BundleRecord, ...] = ()
    kept: tuple[Kept, ...] = ()


def plan_removal(records: Iterable[BundleRecord], rules: Rules, *, now: float) -> RemovalPlan:
    """Judge each bundle. Runs that never started do not count among the newest."""
    going, kept, started = [], [], 0
    for record in sorted(records, key=lambda row: (row.created, row.run), reverse=True):
        started += not record.never_started
        why = why_protected(record, rules, now=now)
        routine = "" if why else _why_too_new(record, rules, started, now=now)
        if why or routine:
            kept.append(Kept(record, why or routine, bool(routine)))
        else:
            going.append(record)
    return RemovalPlan(tuple(going), tuple(kept))


def why_protected(record: BundleRecord, rules: Rules, *, now: float) -> str:
    """Why this bundle stays whatever its age; empty if it may go."""
    if record.link:
        return f"it is a symbolic link to {record.link}: remove the link and what it leads to yourself"
    if record.unreadable:
        return record.unreadable
    return _why_alive(record, now=now) or _why_valuable(record, rules)


def _why_alive(record: BundleRecord, *, now: float) -> str:
    if record.attended:
        return f"a process works on it: ddp-play attach {record.run}"
    if record.final:
        return ""
    if record.ranks_may_live:
        return f"its ranks may run without a supervisor: ddp-play attach {record.run}, or ddp-play stop {record.run}"
    return "" if now - record.since >= NEVER_STARTED_S else "it has not ended; after a day it counts as never started"


def _why_valuable(record: BundleRecord, rules: Rules) -> str:
    if record.uncollected and not rules.with_uncollected:
        helps = "tells where it is" if record.has_allocation else "collects it, or says how"
        return f"not all was collected or removed: {record.uncollected}; ddp-play attach {record.run} {helps}"
    if record.artifacts and not rules.with_artifacts:
        return "it has artifacts, perhaps the only copy; --with-artifacts removes them"
    return ""


def _why_too_new(record: BundleRecord, rules: Rules, started: int, *, now: float) -> str:
    if record.never_started:
        least = min(rules.older_than_s, NEVER_STARTED_S)
        return "" if now - record.since >= least else "it never started, but is younger than a day"
    if started <= rules.keep:
        return f"among the newest {rules.keep}"
    if now - record.since < rules.older_than_s:
        return "younger than --older-than"
    return ""
