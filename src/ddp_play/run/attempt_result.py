"""What the supervisor returns about an attempt: that it did not start, or what its collection and cleanup left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ddp_play.bundle.outcome import Outcome
    from ddp_play.errors import DdpPlayError
    from ddp_play.run.attempt_assignment import Waiting


@dataclass(frozen=True, slots=True)
class NotStarted:
    """An attempt that did not start, because of this error.

    `prepared`: `prepare` was sent, so the attempt number is not used again. `signalled`: the start signal was sent, so
    ranks may have started. `unfenced`: host -> monotonic time after which no rank can be alive there; inf: unknown.
    `waiting`: as in the assignment, with the run's place in the queue. `kept`: host -> working directories there that
    were not collected. `unconfirmed`: hosts that did not confirm the cleanup, also where no rank can have started.
    """

    error: DdpPlayError
    prepared: bool = False
    signalled: bool = False
    unfenced: dict[str, float] = field(default_factory=dict)
    waiting: Waiting | None = None
    kept: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unconfirmed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Collected:
    """An ended attempt after its cleanup.

    `kept`: host -> directories that were kept because they are not fully collected. `unfenced`: as in
    `NotStarted`, without hosts that confirmed the cleanup. `disk_full`: all files stay on the hosts, and no
    restart follows. `uncollected`: hosts of which the logs, or the results and artifacts, were not collected.
    `incomplete`: as of `kept_output.incomplete`. `keeps`: as of `orders_to_keep`.
    """

    outcome: Outcome
    uncollected: tuple[str, ...] = ()
    kept: dict[str, list[str]] = field(default_factory=dict)
    unfenced: dict[str, float] = field(default_factory=dict)
    disk_full: bool = False
    incomplete: dict[str, int] = field(default_factory=dict)
    keeps: dict[str, dict[str, Any]] = field(default_factory=dict)
