"""Run of a provisioning playbook: plan, check of the inventory, execution, report."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import yaml

from ddp_play.ansible.host_problems import ssh_words
from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.left_workers import end_workers
from ddp_play.ansible.runner import PlaybookStatus, artifact
from ddp_play.bundle.journal import Journal
from ddp_play.bundle.paths import home, write_json
from ddp_play.bundle.run_ids import new_run_id
from ddp_play.errors import CheckFailed, DdpPlayError, HostNotReady, Interrupted, UsageError
from ddp_play.planning.remedy_text import Asked
from ddp_play.provisioning.change_listing import ChangeRow, changes_of_event
from ddp_play.provisioning.extra_vars import extra_variables
from ddp_play.provisioning.host_role_table import (
    Cell,
    CellStatus,
    add_event,
    finished_table,
    settled_cells,
    stopped,
    verdict_line,
    with_commands,
)
from ddp_play.provisioning.inventory import load_inventory, matching_hosts, provider_hosts
from ddp_play.provisioning.inventory_rules import check_variables
from ddp_play.provisioning.phases import known_roles, plan_phases, planned_cells
from ddp_play.provisioning.role_specs import read_specs

if TYPE_CHECKING:
    from pathlib import Path

    from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookRunner
    from ddp_play.provisioning.inventory import Inventory, InventoryLoader
    from ddp_play.provisioning.phases import Phase

OF_RANKS = "ranks:spares"
# ssh gives up a host that stops answering within a task after a minute, and Ansible retries once. Of several values
# ssh takes the first, so that the user's ssh_args take precedence.
KEEPALIVE = {"ANSIBLE_SSH_EXTRA_ARGS": "-o ServerAliveInterval=15 -o ServerAliveCountMax=4"}


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


@dataclass(frozen=True, slots=True)
class PlaybookPlan:
    """Phases of a playbook on the hosts of an inventory; `addresses`: ansible_host by host."""

    request: PlaybookRequest
    phases: tuple[Phase, ...]
    addresses: dict[str, str] = field(default_factory=dict)
    providers: tuple[str, ...] = ()  # hosts that others need: NFS server, registry, builder of an environment
    ranks: tuple[str, ...] = ()  # hosts that run ranks, or may

    @property
    def hosts(self) -> tuple[str, ...]:
        """All hosts of all phases."""
        return tuple(dict.fromkeys(host for phase in self.phases for host in phase.hosts))


@dataclass(frozen=True, slots=True)
class Report:
    """Result of a provisioning run: the table, the outcome, and its files."""

    id: str
    directory: Path
    log: Path
    cells: tuple[Cell, ...]
    outcome: PlaybookOutcome
    wall_s: float
    changes: tuple[ChangeRow, ...] = ()  # made, or with `check` only announced
    check: bool = False
    new: tuple[str, ...] = ()  # hosts that roles have provisioned and nobody has checked since

    @property
    def num_tasks(self) -> int:
        """Number of tasks of all hosts, without tasks that change nothing, such as debug."""
        return sum(cell.num_tasks for cell in self.cells)

    def error(self) -> DdpPlayError | None:
        """None if every role succeeded on every host; else an error of the class that tells who must act."""
        error = self.outcome.error(str(self.log))
        bad = {cell.status for cell in self.cells if cell.status.bad} - {CellStatus.STOPPED}
        if error is None or isinstance(error, (UsageError, Interrupted)) or not bad:
            return error
        cls = HostNotReady if bad == {CellStatus.UNREACHABLE} else CheckFailed
        return cls(verdict_line(self.cells), hint=f"complete output: {self.log}")

    def to_json(self) -> dict[str, Any]:
        """Document for `--json` and report.json."""
        error = self.error()
        return {
            "id": self.id,
            "exit_class": error.kind if error else "done",
            "exit_code": error.exit_code if error else 0,
            "message": error.message if error else verdict_line(self.cells),
            "log": str(self.log),
            "wall_s": round(self.wall_s, 1),
            "num_tasks": self.num_tasks,
            "num_changed": sum(cell.num_changed for cell in self.cells),
            "cells": [cell.to_json() for cell in self.cells],
            "check": self.check,
            "changes": [row.to_json() for row in self.changes],
        }


def plan_playbook(
    request: PlaybookRequest, name: str, passwords: Passwords, *, load: InventoryLoader = load_inventory
) -> PlaybookPlan:
    """Plan `playbooks/NAME.yml` on the request's hosts. Raises UsageError if the inventory does not fit the roles."""
    path = collection_root() / "playbooks" / f"{name}.yml"
    plays = yaml.safe_load(path.read_text(encoding="utf-8"))
    unknown = [tag for tag in request.tags if tag not in known_roles(plays)]
    if unknown:
        raise UsageError(f"no role {', '.join(unknown)}", hint=f"--tags takes {', '.join(known_roles(plays))}")
    inventory = load(request, passwords)
    check_names_and_values(inventory, extra_variables(request.options, request.cwd))
    addresses = {host: _login(host, inventory, request.options) for host in inventory.hosts}
    phases = plan_phases(plays, inventory, request.tags)
    providers, ranks = provider_hosts(inventory), matching_hosts(OF_RANKS, inventory)
    planned = PlaybookPlan(dataclasses.replace(request, playbook=str(path)), phases, addresses, providers, ranks)
    if not planned.hosts:
        options = (*request.options, "")
        limit = options[options.index("--limit") + 1] if "--limit" in options else ""
        subject = f"no host of --limit {limit}" if limit else "no host of the inventory"
        raise UsageError(
            f"{subject} is in any phase", hint="put them into group ranks, then: ddp-play inventory check -i INVENTORY"
        )
    return planned


def _login(host: str, inventory: Inventory, options: tuple[str, ...]) -> str:
    """What follows `ssh` to log in to the host by hand, of settings that are plain text in the inventory."""
    given = dict(itertools.pairwise(options))

    def value(name: str, option: str = "") -> object:
        found = inventory.value(host, name) or given.get(option)
        return found if isinstance(found, str | int) and "{{" not in str(found) else None

    return ssh_words(
        str(value("ansible_host") or host),
        port=value("ansible_port"),
        user=value("ansible_user", "--user"),
        key=value("ansible_ssh_private_key_file", "--private-key"),
        args=" ".join(str(value(name) or "") for name in ("ansible_ssh_common_args", "ansible_ssh_extra_args")),
    )


def check_names_and_values(inventory: Inventory, extra: dict[str, Any]) -> None:
    """Raise UsageError if a variable's name or value does not fit the roles' specs, before a host is changed."""
    findings = check_variables(inventory, read_specs(), extra)
    if findings:
        raise UsageError("\n".join(str(row) for row in findings), hint="ddp-play inventory check -i INVENTORY")


def run_playbook(
    planned: PlaybookPlan, passwords: Passwords, runner: PlaybookRunner, observer: ProvisioningObserver
) -> Report:
    """Run the playbook to its end and write its report. Failed hosts do not raise: they are in the report."""
    runs = home() / "provision"
    directory = runs / new_run_id(runs)
    handler = _EventHandler(planned, Journal(directory / "events.jsonl"), observer)
    extra = {name: value for name, value in KEEPALIVE.items() if name not in os.environ}
    request = dataclasses.replace(planned.request, environment={**planned.request.environment, **extra})
    started = time.monotonic()
    try:
        outcome = runner.run(request, private_dir=directory / "ansible", passwords=passwords, on_event=handler.on_event)
    finally:
        end_workers(directory / "ansible")
    handler.end_playbook(complete=bool(outcome.stats) or outcome.status is PlaybookStatus.OK)
    wall_s = time.monotonic() - started
    stats = {} if outcome.status is PlaybookStatus.NOT_STARTED else outcome.stats
    asked = Asked(request.inventory, request.options)
    cells = with_commands(finished_table(handler.cells, planned_cells(planned.phases), stats), asked)
    log = artifact(directory / "ansible", "stdout")
    changes, check = tuple(dict.fromkeys(handler.changes)), "--check" in planned.request.options
    new = tuple(host for host in planned.hosts if host in handler.new)
    report = Report(directory.name, directory, log, cells, outcome, wall_s, changes, check, new)
    write_json(directory / "report.json", report.to_json())
    return report


@dataclass
class _EventHandler:
    """Turns Ansible's events into cells of the table, and reports them to the observer and the journal."""

    planned: PlaybookPlan
    journal: Journal
    observer: ProvisioningObserver
    cells: dict[tuple[str, str], Cell] = field(default_factory=dict)
    reported: set[tuple[str, str]] = field(default_factory=set)
    changes: list[ChangeRow] = field(default_factory=list)
    new: set[str] = field(default_factory=set)
    settled: dict[tuple[str, str], Cell] = field(default_factory=dict)  # of roles that may end without a task
    running: Phase | None = None
    last: dict[str, str] = field(default_factory=dict)  # by host the role of its last task

    def on_event(self, event: dict[str, Any]) -> None:
        data = event.get("event_data") or {}
        if event.get("event") == "playbook_on_play_start":
            self.end_phase()
            for phase in self.planned.phases:
                if phase.name == data.get("name") and phase.hosts:
                    self.journal.emit("phase", **phase.to_json())
                    self.observer.phase(phase)
                    self.running = phase
        if event.get("event") == "runner_retry" and data.get("host"):
            busy = (data.get("res") or {}).get("busy") or ()
            self.observer.waiting(str(data["host"]), "; ".join(map(str, busy)))
        if (data.get("res") or {}).get("is_new") is True:
            self.new.add(str(data.get("host")))
        self.changes += changes_of_event(event)
        self.settled |= settled_cells(event)
        cell = add_event(self.cells, self._with_role(event), self.planned.addresses)
        if cell is not None:
            self.last[cell.host] = cell.role
            self._end_roles(cell)
            self.observer.task(str(data.get("task") or ""), cell.host)
            # a rescue may still handle a failure, but an unreachable host remains unreachable
            if cell.status is CellStatus.UNREACHABLE:
                self._report(cell)

    def _settle(self, phase: Phase) -> None:
        """Add the settled roles of a phase that has ended: those that ran no task, up to a failure on their host."""
        failed_before = {cell.host for cell in self.cells.values() if cell.status.bad and cell.role not in phase.roles}
        for host in phase.hosts:
            for role in phase.roles:
                cell = self.cells.get((host, role)) or self.settled.get((host, role))
                if host in failed_before or (cell and cell.status.bad):
                    break
                if cell:
                    self.cells[host, role] = cell

    def _with_role(self, event: dict[str, Any]) -> dict[str, Any]:
        """The event; a host that is not reachable before its first role fails in that role."""
        data = event.get("event_data") or {}
        if event.get("event") != "runner_on_unreachable" or data.get("role"):
            return event
        roles = [role for host, role in planned_cells(self.planned.phases) if host == data.get("host")]
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
        planned = cell.status.bad or (cell.host, cell.role) in planned_cells(self.planned.phases)
        if planned and (cell.host, cell.role) not in self.reported:
            self.reported.add((cell.host, cell.role))
            self.journal.emit("role", **cell.to_json())
            self.observer.cell(cell)
