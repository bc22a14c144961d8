"""Events of a provisioning playbook, its outcome and its plan, and an observer that keeps what it is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.runner import Passwords, PlaybookOutcome, PlaybookRequest, PlaybookStatus, TaskFailure
from ddp_play.provisioning.inventory import Group, Inventory
from ddp_play.provisioning.playbook_run import PlaybookPlan, plan_playbook

if TYPE_CHECKING:
    from ddp_play.provisioning.host_role_table import Cell
    from ddp_play.provisioning.phases import Phase

REQUEST = PlaybookRequest("/x.yml", ("/inv",), "/", tags=("base_os", "docker_engine"))
INVENTORY = Inventory({"ranks": Group("ranks", ("h1", "h2"))}, {})


@dataclass
class RecordingObserver:
    """Implements ProvisioningObserver."""

    phases: list[str] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)
    cells: list[tuple[str, str, str]] = field(default_factory=list)
    waits: list[tuple[str, str]] = field(default_factory=list)

    def phase(self, phase: Phase) -> None:
        self.phases.append(phase.name)

    def task(self, name: str, host: str) -> None:
        self.tasks.append(host)

    def waiting(self, host: str, why: str) -> None:
        self.waits.append((host, why))

    def cell(self, cell: Cell) -> None:
        self.cells.append((cell.host, cell.role, str(cell.status)))


def play(name: str) -> dict[str, Any]:
    return {"event": "playbook_on_play_start", "event_data": {"name": name}}


def done(host: str, role: str, kind: str = "ok", **res: Any) -> dict[str, Any]:
    data = {"host": host, "role": role, "task": "t", "task_action": "ansible.builtin.copy", "res": res}
    return {"event": f"runner_on_{kind}", "event_data": data}


def planned(
    inventory: Inventory = INVENTORY, request: PlaybookRequest = REQUEST, name: str = "provision"
) -> PlaybookPlan:
    return plan_playbook(request, name, Passwords(), load=lambda _request, _passwords: inventory)


def outcome(status: PlaybookStatus, *failures: TaskFailure, **stats: dict[str, int]) -> PlaybookOutcome:
    return PlaybookOutcome(status, 0 if status is PlaybookStatus.OK else 2, failures, "words", stats)


GOOD = (
    play("Operating system"),
    done("h1", "base_os", changed=True),
    done("h2", "base_os"),
    play("Container engine"),
    done("h1", "docker_engine"),
    done("h2", "docker_engine"),
)

SICK = TaskFailure("h1", "t", "no route", unreachable=True)
UNREACHABLE = done("h1", "base_os", "unreachable", msg="no route")
