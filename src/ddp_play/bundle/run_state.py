"""State of a run for a screen or a page: rows of its bundle in, ranks and hosts out. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.event_texts import HOST_STATES, Level, event_lines, plan_lines, shown_state
from ddp_play.bundle.metric_series import Metrics, is_number
from ddp_play.planning.plan_document import ranks_by_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MAX_EVENTS = 500
# Order in which states are counted and listed.
STATES = ("failed", "stopped", "created", "running", "exited")
PROBLEMS = ("silent", "lost")  # states of a host


@dataclass
class Rank:
    """One rank. `line`: its last line of output, `line_at`: when it came; 0 if there is none yet."""

    number: int
    host: str
    state: str = "created"
    how: str = ""  # it ended
    line: str = ""
    line_at: float = 0.0
    step: float | None = None

    @property
    def bad(self) -> bool:
        """Has it failed?"""
        return self.state == "failed"


@dataclass
class Host:
    """One host of the plan with its newest sample."""

    name: str
    ranks: tuple[int, ...]
    interface: str = ""
    gpus: tuple[str, ...] = ()  # the run's, in the order of local ranks
    problem: str = ""  # it does not answer, or is lost
    header: dict[str, Any] = field(default_factory=dict)
    sample: dict[str, Any] = field(default_factory=dict)

    def gpus_of(self, rank: int) -> tuple[str, ...]:
        """The GPUs of a rank: its share of the host's."""
        if rank not in self.ranks or not self.gpus:
            return ()
        share = max(1, len(self.gpus) // len(self.ranks))
        first = self.ranks.index(rank) * share
        return self.gpus[first : first + share]


@dataclass(frozen=True, slots=True)
class Note:
    """A line about an event, with its time."""

    time: float
    text: str
    level: Level


class RunState:
    """What the rows of a bundle say about a run so far."""

    def __init__(self) -> None:
        self.phase = "starting"
        self.attempt = 1
        self.plan: dict[str, Any] = {}
        self.hosts: dict[str, Host] = {}
        self.ranks: dict[int, Rank] = {}
        self.notes: deque[Note] = deque(maxlen=MAX_EVENTS)
        self.metrics = Metrics()  # of rank 0
        self.stopping = ""  # why

    def take_plan(self, plan: Mapping[str, Any], *, at: float) -> None:
        """Take the content of plan.json: every rank has not started yet."""
        self.plan = dict(plan)
        kinds = plan.get("kinds") or []
        self.hosts, self.ranks = {}, {}
        for row, (name, ranks) in zip(plan["hosts"], ranks_by_host(dict(plan)).items(), strict=True):
            kind = kinds[row["kind"]] if row.get("kind") is not None else {}
            gpus = tuple(map(str, kind.get("gpus") or ()))
            self.hosts[name] = Host(name, tuple(ranks), str(kind.get("interface") or ""), gpus)
            self.ranks |= {rank: Rank(rank, name) for rank in ranks}
        self._note(at, plan_lines(plan))

    def take_event(self, event: Mapping[str, Any]) -> None:
        """Take one event of the journal."""
        at = event["time"] if is_number(event.get("time")) else 0.0
        handler = getattr(self, f"_on_{event.get('type')}", None)
        if handler is not None:
            handler(event)
        self._note(at, event_lines(event))

    def _note(self, at: float, lines: Iterable[tuple[str, Level]]) -> None:
        self.notes.extend(Note(at, text, level) for text, level in lines)

    def _on_phase(self, event: Mapping[str, Any]) -> None:
        self.phase = str(event["phase"])

    def _on_rank(self, event: Mapping[str, Any]) -> None:
        rank = self.ranks.get(event["rank"])
        if rank is not None:
            rank.state, rank.how = shown_state(event), str(event["how"])

    def _on_host(self, event: Mapping[str, Any]) -> None:
        host = self.hosts.get(event["host"])
        if host is not None:
            host.problem = HOST_STATES[event["state"]] if event["state"] in PROBLEMS else ""

    def _on_waiting(self, _event: Mapping[str, Any]) -> None:
        self.phase = "waiting"

    def _on_stop(self, event: Mapping[str, Any]) -> None:
        self.stopping = str(event["reason"])

    def _on_restart(self, event: Mapping[str, Any]) -> None:
        self.phase, self.attempt, self.stopping = "restarting", int(event["attempt"]), ""
        self.metrics = Metrics()

    def take_sample(self, host: str, header: Mapping[str, Any], row: Mapping[str, Any]) -> None:
        """Take the newest sample of a host, and the header of its file. One of an earlier attempt is none."""
        if host in self.hosts and row.get("attempt", self.attempt) == self.attempt:
            self.hosts[host].header, self.hosts[host].sample = dict(header), dict(row)

    # -- what is shown -------------------------------------------------------------------------------
    def counts(self) -> dict[str, int]:
        """Number of ranks by state, failed ones first."""
        found = dict.fromkeys(STATES, 0)
        for rank in self.ranks.values():
            found[rank.state] = found.get(rank.state, 0) + 1
        return {state: number for state, number in found.items() if number}

    def hosts_in_order(self) -> list[Host]:
        """Hosts with failed ranks first, then those that do not answer, then the others as planned."""
        bad = {rank.host for rank in self.ranks.values() if rank.bad}
        return sorted(self.hosts.values(), key=lambda host: (host.name not in bad, not host.problem))

    def ranks_in_order(self, host: Host) -> list[Rank]:
        """Ranks of a host, failed ones first."""
        return sorted((self.ranks[number] for number in host.ranks), key=lambda rank: not rank.bad)
