"""Run of a provisioning playbook: plan, check of the inventory, execution, report."""

from __future__ import annotations

import dataclasses
import itertools
import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ddp_play.ansible.host_problems import ssh_words
from ddp_play.ansible.installed_collection import collection_root
from ddp_play.ansible.left_workers import end_workers
from ddp_play.ansible.runner import PlaybookStatus, artifact
from ddp_play.bundle.journal import Journal
from ddp_play.bundle.paths import home, write_json
from ddp_play.bundle.run_ids import new_run_id
from ddp_play.bundle.summary import counted
from ddp_play.errors import CheckFailed, DdpPlayError, HostNotReady, Interrupted, UsageError
from ddp_play.planning.remedy_text import Asked
from ddp_play.provisioning.extra_vars import extra_variables
from ddp_play.provisioning.host_role_table import CellStatus, finished_table, verdict_line, with_commands
from ddp_play.provisioning.inventory import load_inventory, matching_hosts, provider_hosts
from ddp_play.provisioning.inventory_rules import check_variables
from ddp_play.provisioning.phases import groups_of_roles, known_roles, plan_phases, planned_cells
from ddp_play.provisioning.role_events import RoleEvents
from ddp_play.provisioning.role_specs import read_specs

if TYPE_CHECKING:
    from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookRunner
    from ddp_play.provisioning.change_listing import ChangeRow
    from ddp_play.provisioning.host_role_table import Cell
    from ddp_play.provisioning.inventory import Inventory, InventoryLoader
    from ddp_play.provisioning.phases import Phase
    from ddp_play.provisioning.role_events import ProvisioningObserver

OF_RANKS = "ranks:spares"
VERIFICATION = "verify"
# ssh gives up a host that stops answering within a task after a minute, and Ansible retries once. Of several values
# ssh takes the first, so that the user's ssh_args take precedence.
KEEPALIVE = {"ANSIBLE_SSH_EXTRA_ARGS": "-o ServerAliveInterval=15 -o ServerAliveCountMax=4"}


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
    verified: bool = False  # the playbook only compared the hosts with the wanted state

    @property
    def verdict(self) -> str:
        """Summary in one line."""
        return verdict_line(self.cells, verified=self.verified)

    @property
    def effort(self) -> str:
        """How many tasks ran in which time. A role that one reading for all roles has judged has no task of its own."""
        tasks = f"{counted(self.num_tasks, 'task')} in " if self.num_tasks else ""
        return f"{tasks}{self.wall_s:.1f} s"

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
        return cls(self.verdict, hint=f"complete output: {self.log}")

    def to_json(self) -> dict[str, Any]:
        """Document for `--json` and report.json."""
        error = self.error()
        return {
            "id": self.id,
            "exit_class": error.kind if error else "done",
            "exit_code": error.exit_code if error else 0,
            "message": error.message if error else self.verdict,
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
        groups = "ranks" if not request.tags else " or ".join(groups_of_roles(plays, request.tags))
        hint = f"put them into group {groups}, then: ddp-play inventory check -i INVENTORY"
        raise UsageError(f"{subject} is in any phase", hint=hint)
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
    handler = RoleEvents(planned.phases, planned.addresses, Journal(directory / "events.jsonl"), observer)
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
    cells = with_commands(finished_table(handler.cells, planned_cells(planned.phases), stats, handler.noted), asked)
    log = artifact(directory / "ansible", "stdout")
    changes, check = tuple(dict.fromkeys(handler.changes)), "--check" in planned.request.options
    new = tuple(host for host in planned.hosts if host in handler.new)
    verified = Path(planned.request.playbook).stem == VERIFICATION
    report = Report(directory.name, directory, log, cells, outcome, wall_s, changes, check, new, verified)
    write_json(directory / "report.json", report.to_json())
    return report
