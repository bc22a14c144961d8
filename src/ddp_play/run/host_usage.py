"""Usage of hosts (`ddp-play usage`): what runs have used of their slots, by user, host or run, and what was idle."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.metric_series import is_number
from ddp_play.guard.protocol import run_key
from ddp_play.run.host_sweep import sweep_hosts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ddp_play.ansible.runner import Passwords, PlaybookRequest, PlaybookRunner

HOUR_S = 3600.0
# In place of the name of a user or run that a host did not tell.
UNKNOWN = "(others)"


@dataclass(frozen=True, slots=True)
class Used:
    """What one run has used of one host."""

    host: str
    run: str  # its key
    owner: str
    attempts: int
    slot_s: float  # slots times seconds
    gpu_s: float = 0.0  # GPU seconds of which the utilization is known
    gpu_busy_s: float = 0.0  # of these

    def name(self, by: str) -> str:
        """What it counts for: its `user`, `host` or `run`."""
        return {"user": self.owner or UNKNOWN, "host": self.host, "run": self.run or UNKNOWN}[by]


@dataclass(frozen=True, slots=True)
class Group:
    """What one user, host or run has used. `share`: of all slots in the whole time.

    `gpu_busy`: mean utilization of the GPUs of its slots while its ranks ran, 0 to 1; None if no sample tells it.
    """

    name: str
    runs: int
    attempts: int
    slot_hours: float
    share: float
    gpu_busy: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of all hosts that answered, in the last `since_s` seconds. `slots`: by host. `oldest_s`: age of records."""

    since_s: float
    rows: tuple[Used, ...] = ()
    slots: Mapping[str, int] = field(default_factory=dict)
    oldest_s: float | None = None
    problems: Mapping[str, str] = field(default_factory=dict)
    num_gpus: int = 0  # of all hosts

    @property
    def capacity_hours(self) -> float:
        """Slot hours that the hosts had."""
        return sum(self.slots.values()) * self.since_s / HOUR_S

    @property
    def used_hours(self) -> float:
        """Slot hours that runs have used."""
        return sum(row.slot_s for row in self.rows) / HOUR_S

    @property
    def idle_share(self) -> float:
        """Part of all slot hours in which no run had the slot; runs may have more ranks than a host has slots."""
        return max(0.0, 1 - self.used_hours / self.capacity_hours) if self.capacity_hours else 0.0

    @property
    def gpu_busy(self) -> float | None:
        """Mean utilization of the GPUs while runs had them, 0 to 1; None if no sample tells it."""
        return _gpu_busy(self.rows)

    @property
    def has_gpus(self) -> bool:
        """Hosts have GPUs, or had them when the runs ran."""
        return bool(self.num_gpus) or self.gpu_busy is not None

    def groups(self, by: str) -> list[Group]:
        """By `user`, `host` or `run`, the largest first; hosts that were idle too."""
        members: dict[str, list[Used]] = {host: [] for host in self.slots} if by == "host" else {}
        for row in self.rows:
            members.setdefault(row.name(by), []).append(row)
        found = [self._group(name, rows, by) for name, rows in members.items()]
        return sorted(found, key=lambda group: (-group.slot_hours, group.name))

    def _group(self, name: str, rows: list[Used], by: str) -> Group:
        hours = sum(row.slot_s for row in rows) / HOUR_S
        all_hours = self.slots.get(name, 0) * self.since_s / HOUR_S if by == "host" else self.capacity_hours
        attempts: dict[str, int] = {}
        for row in rows:  # a run's attempts are on several hosts at once
            attempts[row.run] = max(attempts.get(row.run, 0), row.attempts)
        share = hours / all_hours if all_hours else 0.0
        return Group(name, len(attempts), sum(attempts.values()), hours, share, _gpu_busy(rows))


def _gpu_busy(rows: Iterable[Used]) -> float | None:
    sampled_s = busy_s = 0.0
    for row in rows:
        sampled_s, busy_s = sampled_s + row.gpu_s, busy_s + min(row.gpu_s, row.gpu_busy_s)
    return busy_s / sampled_s if sampled_s else None


def find_usage(request: PlaybookRequest, passwords: Passwords, runner: PlaybookRunner, since_s: float) -> Usage:
    """Ask all hosts of the inventory."""
    return usage_of(sweep_hosts(request, passwords, runner, "usage", {"since_s": since_s}), since_s)


def usage_of(answers: Mapping[str, dict[str, Any]], since_s: float) -> Usage:
    """From the answers by host. Hosts of the inventory that are one machine have one record, which counts once."""
    good = {host: answer for host, answer in answers.items() if "problem" not in answer}
    sharing: dict[str, list[str]] = {}
    for host, answer in good.items():
        sharing.setdefault(answer["record"] or host, []).append(host)
    rows = tuple(
        Used(
            row["host"] if row["host"] in hosts else hosts[0],
            run_key(row["run"], row["token"]),
            row["owner"],
            row["attempts"],
            *(_seconds(row.get(name)) for name in ("slot_s", "gpu_s", "gpu_busy_s")),
        )
        for hosts in sharing.values()
        for row in good[hosts[0]]["runs"]
    )
    ages = [answer["oldest_s"] for answer in good.values() if answer.get("oldest_s") is not None]
    return Usage(
        since_s,
        rows,
        {host: answer["gpus"] or answer.get("slots") or 1 for host, answer in good.items()},
        max(ages, default=None),
        {host: answer["problem"] for host, answer in answers.items() if "problem" in answer},
        sum(answer["gpus"] for answer in good.values()),
    )


def _seconds(value: object) -> float:
    """A host's number, which may be anything: below zero, or none at all, it counts as nothing."""
    return max(0.0, float(value)) if is_number(value) else 0.0
