"""Roles on hosts, from the events of a playbook: cells of the table, and reports to an observer and to the journal."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ddp_play.provisioning.change_listing import ChangeRow, changes_of_event
from ddp_play.provisioning.host_role_table import (
    OF_ANOTHER_HOST,
    Cell,
    CellStatus,
    add_event,
    ends_host,
    noted_failures,
    settled_cells,
    stopped,
)
from ddp_play.provisioning.phases import planned_cells

if TYPE_CHECKING:
    from ddp_play.bundle.journal import Journal
    from ddp_play.provisioning.phases import Phase


class ProvisioningObserver(Protocol):
    """Receiver of the events of a provisioning run; `ddp_play.cli.provisioning_view` prints them."""

    def phase(self, phase: Phase) -> None:
        """A phase begins."""

    def task(self, name: str, host: str) -> None:
        """A host has finished a task."""

    def waiting(self, host: str, why: str) -> None:
        """A task on a host is repeated until something ends there; `why` is empty where the task does not say."""

    def cell(self, cell: Cell) -> None:
        """A role has ended on a host."""


@dataclass
class RoleEvents:
    """Turns Ansible's events into cells of the table, and reports them to the observer and the journal."""

    phases: tuple[Phase, ...]
    addresses: dict[str, str]
    journal: Journal
    observer: ProvisioningObserver
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    reported: set[tuple[str, str]] = field(default_factory=set)
    changes: list[ChangeRow] = field(default_factory=list)
    new: set[str] = field(default_factory=set)
    settled: dict[tuple[str, str], Cell] = field(default_factory=dict)  # of roles that may end without a task
    noted: set[tuple[str, str]] = field(default_factory=set)  # failures after which their hosts go on
    running: Phase | None = None
    last: dict[str, str] = field(default_factory=dict)  # by host the role of its last task

    def on_event(self, event: dict[str, Any]) -> None:
        """Take one event of ansible-runner."""
        data = event.get("event_data") or {}
        if event.get("event") == "playbook_on_play_start":
            self.end_phase()
            for phase in self.phases:
                if phase.name == data.get("name") and phase.hosts:
                    self.journal.emit("phase", **phase.to_json())
                    self.observer.phase(phase)
                    self.running = phase
        if event.get("event") == "runner_retry" and data.get("host"):
            busy = (data.get("res") or {}).get("busy") or [str(data.get("task") or "").rpartition(" | ")[2]]
            self.observer.waiting(str(data["host"]), "; ".join(map(str, busy)))
        if (data.get("res") or {}).get("is_new") is True:
            self.new.add(str(data.get("host")))
        self.changes += changes_of_event(event)
        self.settled |= settled_cells(event)
        self._note(noted_failures(event))
        cell = add_event(self.cells, self._with_role(event), self.addresses)
        if cell is not None:
            self.last[cell.host] = cell.role
            self._end_roles(cell)
            self.observer.task(str(data.get("task") or ""), cell.host)
            # a rescue may still handle a failure, but an unreachable host remains unreachable
            if cell.status is CellStatus.UNREACHABLE:
                self._report(cell)

    def _note(self, failures: tuple[tuple[str, str], ...]) -> None:
        """Report failures after which their hosts go on. A noted role without one ended with another host's failure."""
        self.noted |= set(failures)
        for key in failures:
            self.cells[key] = stopped(self.cells.get(key) or Cell(*key), OF_ANOTHER_HOST)
            self._report(self.cells[key])

    def _settle(self, phase: Phase) -> None:
        """Add the settled roles of a phase that has ended: those that ran no task, up to the end of their host."""
        failed_before = {
            cell.host for cell in self.cells.values() if ends_host(cell, self.noted) and cell.role not in phase.roles
        }
        for host in phase.hosts:
            for role in phase.roles:
                cell = self.cells.get((host, role)) or self.settled.get((host, role))
                if host in failed_before or (cell and ends_host(cell, self.noted)):
                    break
                if cell:
                    self.cells[host, role] = cell

    def _with_role(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event; a host that is not reachable, or fails, before its first role fails in that role."""
        data = event.get("event_data") or {}
        fails = event.get("event") == "runner_on_failed" and str(data.get("host")) not in self.last
        if data.get("role") or not (fails or event.get("event") == "runner_on_unreachable"):
            return event
        roles = [role for host, role in planned_cells(self.phases) if host == data.get("host")]
        return {**event, "event_data": {**data, "role": roles[0] if roles else None}}

    def _end_roles(self, current: Cell) -> None:
        """Report the host's earlier roles: they have ended, because the host has begun another one."""
        for cell in tuple(self.cells.values()):
            if cell.host == current.host and cell.role != current.role and not cell.status.bad:
                self._report(cell)

    def end_playbook(self, *, complete: bool) -> None:
        """Report what is left. Without Ansible's summary, each host's last role in the running phase was stopped."""
        if self.running is not None and not complete:
            for host in self.running.hosts:
                key = (host, self.last.get(host, ""))
                if key in self.cells and key[1] in self.running.roles:
                    self.cells[key] = stopped(self.cells[key])
        self.end_phase()

    def end_phase(self) -> None:
        """Report all roles that were not reported yet: they have ended on every host."""
        if self.running is not None:
            self._settle(self.running)
            self.running = None
        for cell in tuple(self.cells.values()):
            self._report(cell)

    def _report(self, cell: Cell) -> None:
        planned = cell.status.bad or (cell.host, cell.role) in planned_cells(self.phases)
        if planned and (cell.host, cell.role) not in self.reported:
            self.reported.add((cell.host, cell.role))
            self.journal.emit("role", **cell.to_json())
            self.observer.cell(cell)
