"""A row of the fault table: what happens, and what must come of it, written down before it is tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.faults.scene import Scene

# A rank's death ends the gang within this, and reachable hosts are clean this long after the last rank's end.
STOPPED_S, CLEAN_S = 5.0, 5.0

Act = Callable[["Scene"], None]


def nothing(_scene: Scene) -> None:
    """No fault from outside: the rank itself misbehaves, or all is well."""


@dataclass(frozen=True)
class Expected:
    """What must come of a fault. Times are seconds."""

    ends: bool  # or the run continues and succeeds
    verdict: str  # exit_class of run.json
    exit_code: int
    rank: int | None = None
    host: str | None = None
    stopped_s: float | None = STOPPED_S  # from the fault to the end of the last rank; None: not asked
    clean_s: float = CLEAN_S  # from there to nothing of ours on any reachable host
    says: tuple[str, ...] = ()  # on the screen, in the message or the hint
    remains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # host -> kinds of things still there
    missing: bool | None = False  # something could not be brought home, and run.json says so; None: not asked
    attempts: int = 1


DONE = Expected(ends=False, verdict="done", exit_code=0, stopped_s=None)


@dataclass(frozen=True)
class Row:
    """One fault. `on` names the stages where it plays; the quick ones play in `make test` too."""

    name: str
    expected: Expected
    fault: Act = nothing
    victim: tuple[str, ...] = ()  # arguments of victim.py
    job: Mapping[str, Any] = field(default_factory=dict)  # variables over the defaults of the scene
    secrets: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()  # further words for `ddp-play run`
    on: tuple[str, ...] = ("here", "lab")
    containers: bool = True  # on the lab; process ranks otherwise
    quick: bool = False
    under_way: bool = True  # the fault comes in the middle of an epoch; otherwise while the run starts
    before: Act = nothing
    after: Act = nothing  # puts back what the fault changed, whatever happened
    check: Act = nothing  # what this row asserts besides
