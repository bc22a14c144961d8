"""Status, verdict and rank outcomes of a run, as run.json has them."""

from __future__ import annotations

import signal as signals
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from ddp_play.errors import DdpPlayError, Interrupted
from ddp_play.guard.rank_failure import rank_failed
from ddp_play.planning.remedy_text import Asked, complete


class RunStatus(StrEnum):
    """Status of a run. The last three are final."""

    STARTING = "starting"
    WAITING = "waiting"  # for slots on the hosts, or for the end of a lost host's ranks
    PREPARING = "preparing"
    RUNNING = "running"
    STOPPING = "stopping"
    COLLECTING = "collecting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"

    @property
    def final(self) -> bool:
        """Has the run ended?"""
        return self in (RunStatus.SUCCEEDED, RunStatus.FAILED, RunStatus.STOPPED)


@dataclass(frozen=True, slots=True)
class RankOutcome:
    """How one rank ended. Times are on the controller's clock."""

    rank: int
    host: str
    state: str  # created | running | exited | lost
    exit_code: int | None = None
    signal: int | None = None
    oom: bool = False
    stopped: bool = False  # ddp-play ended it
    started: float | None = None
    ended: float | None = None
    detail: str = ""
    log_bytes: int = 0
    log_complete: bool = False
    kernel: tuple[str, ...] = ()  # lines of the host's kernel log about its end
    kernel_problem: str = ""  # why the kernel log could not be read

    @property
    def ok(self) -> bool:
        """Did it exit with code 0?"""
        return self.state == "exited" and self.exit_code == 0

    @property
    def failed(self) -> bool:
        """Did it fail, and not because ddp-play ended it?"""
        return rank_failed(self.state, self.exit_code, stopped=self.stopped)

    def words(self) -> str:
        """How it ended, for messages: `exit code 3`, `signal 9 (SIGKILL), out of memory`."""
        if self.state == "lost":
            return "lost with its host"
        if self.state in ("created", "running"):
            return "never started" if self.state == "created" else "still running"
        if self.exit_code is None:
            return self.detail or "ended, exit code unknown"
        text = f"signal {self.signal} ({signal_name(self.signal)})" if self.signal else f"exit code {self.exit_code}"
        return text + (", out of memory" if self.oom else "")


def signal_name(number: int | None) -> str:
    """SIGKILL for 9."""
    try:
        return signals.Signals(number or 0).name
    except ValueError:
        return f"signal {number}"


HOST_LOST = "host_lost"  # kind of a verdict that several modules ask for


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why the run ended: the first failing rank and its host, apart from collateral failures."""

    kind: str  # done | rank_failed | host_lost | stopped | max_duration | idle | lease | no_progress | <error kind>
    message: str
    exit_code: int
    rank: int | None = None
    host: str | None = None
    tail: tuple[str, ...] = ()
    last_frame: str = ""
    error: str = ""  # `ValueError: loss is nan`
    kernel: tuple[str, ...] = ()
    collateral: tuple[int, ...] = ()
    hint: str = ""

    def to_json(self) -> dict[str, Any]:
        """For run.json."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Verdict:
        """From run.json."""
        lists = {name: tuple(data.get(name) or ()) for name in ("tail", "collateral", "kernel")}
        return cls(**{**data, **lists})


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: status, verdict and every rank.

    `missing`: files that could not be collected. `left`: host -> what remains on it.
    """

    status: RunStatus
    verdict: Verdict
    ranks: tuple[RankOutcome, ...] = ()
    missing: tuple[dict[str, Any], ...] = ()
    left: dict[str, list[str]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """For run.json."""
        return {
            "status": str(self.status),
            "verdict": self.verdict.to_json(),
            "exit_code": self.verdict.exit_code,
            "exit_class": self.verdict.kind,
            "ranks": [asdict(rank) for rank in self.ranks],
            "missing": list(self.missing),
            "left_behind": self.left,
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Outcome:
        """From outcome.json or run.json."""
        return cls(
            RunStatus(data["status"]),
            Verdict.from_json(data["verdict"]),
            tuple(RankOutcome(**{**row, "kernel": tuple(row.get("kernel") or ())}) for row in data["ranks"]),
            tuple(data.get("missing") or ()),
            dict(data.get("left_behind") or {}),
        )


# Fields of run.json about ranks and files: a later error does not replace them.
KEPT_FIELDS = ("ranks", "missing", "left_behind")


def error_fields(error: DdpPlayError, known: dict[str, Any]) -> dict[str, Any]:
    """Fields of run.json after an error. Ranks and files that run.json (`known`) lists already stay listed."""
    return outcome_fields(error_outcome(error), known)


def outcome_fields(outcome: Outcome, known: dict[str, Any]) -> dict[str, Any]:
    """Fields of run.json of a run that ended so. Ranks and files that run.json (`known`) lists already stay listed."""
    fields = with_commands(outcome.to_json(), known)
    return {name: known.get(name) or value if name in KEPT_FIELDS else value for name, value in fields.items()}


def with_commands(fields: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Fields of run.json whose remedies name the inventory and the run of run.json (`known`)."""
    asked = Asked.from_run(known)
    found = dict(fields)
    if verdict := found.get("verdict"):
        found["verdict"] = {**verdict, "hint": complete(str(verdict.get("hint") or ""), asked)}
    if left := found.get("left_behind"):
        found["left_behind"] = {host: [complete(row, asked) for row in rows] for host, rows in left.items()}
    return found


def error_outcome(error: DdpPlayError) -> Outcome:
    """The outcome of a run that never started, for run.json."""
    status = RunStatus.STOPPED if isinstance(error, Interrupted) else RunStatus.FAILED
    return Outcome(status, Verdict(error.kind, error.message, error.exit_code, hint=error.hint))
