"""Table of results by host and role, from Ansible's events. Pure."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.host_problems import problem_from_text, remedy_of
from ddp_play.bundle.summary import counted
from ddp_play.planning.remedy_text import Asked, complete

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

NO_ADDRESSES: Mapping[str, str] = MappingProxyType({})
SKIPPED = re.compile(r"skipped: (?:(\w+): )?(.*)", re.DOTALL)
PENDING = re.compile(r"pending: (?:(\w+): )?(.*)", re.DOTALL)
NOTED = "ddp_failed_roles"
LEFT = re.compile(r"left on \S+: (.*)", re.DOTALL)
OF_ANOTHER_HOST = "a task for all hosts failed on another host"
ACTIONS_WITHOUT_EFFECT = (
    "debug",
    "meta",
    "include_tasks",
    "import_tasks",
    "include_role",
    "import_role",
    "validate_argument_spec",
)


class CellStatus(StrEnum):
    """How a role ended on a host."""

    CHANGED = "changed"
    OK = "ok"
    SKIPPED = "skipped"
    FAILED = "failed"
    UNREACHABLE = "unreachable"
    STOPPED = "stopped"
    NOT_RUN = "not_run"

    @property
    def bad(self) -> bool:
        """Whether the role did not complete its work."""
        return self in (CellStatus.FAILED, CellStatus.UNREACHABLE, CellStatus.STOPPED)


@dataclass(frozen=True, slots=True)
class Cell:
    """Result of one role on one host."""

    host: str
    role: str
    status: CellStatus = CellStatus.OK
    num_changed: int = 0
    num_tasks: int = 0
    duration_s: float = 0.0  # of its tasks, with the time of the connection
    reason: str = ""  # why it was skipped or not run
    task: str = ""  # the failed task; `message` is its error message
    message: str = ""
    remedy: str = ""
    left: str = ""  # what deprovisioning leaves on the host
    pending: str = ""  # changes that wait for a quiet host or a reboot although the role continued

    @property
    def waits(self) -> bool:
        """Whether changes wait for a quiet host or a reboot, also where the role ended for that reason."""
        return bool(self.pending or PENDING.fullmatch(self.reason))

    def to_json(self) -> dict[str, Any]:
        """Fields for `--json`, without empty texts."""
        found = {key: value for key, value in asdict(self).items() if value != ""}
        return {**found, "duration_s": round(self.duration_s, 1)}


def add_event(
    cells: dict[tuple[str, str], Cell], event: dict[str, Any], addresses: Mapping[str, str] = NO_ADDRESSES
) -> Cell | None:
    """Add one event of ansible-runner to the table; return the changed cell, or None if the event is not a role's."""
    kind, data = str(event.get("event")), event.get("event_data") or {}
    host, role = data.get("host"), data.get("role")
    if not host or not role or kind not in ("runner_on_ok", "runner_on_failed", "runner_on_unreachable"):
        return None
    if data.get("ignore_errors"):
        return None
    before = cells.get((host, role), Cell(host, role))
    before = replace(before, duration_s=before.duration_s + float(data.get("duration") or 0.0))
    after = (
        _after_success(before, data)
        if kind == "runner_on_ok"
        else _after_failure(before, data, kind, addresses.get(host, host))
    )
    cells[host, role] = after
    return after


def settled_cells(event: dict[str, Any]) -> dict[tuple[str, str], Cell]:
    """Cells of the roles that have nothing to do or to say on a host, from the event of ddp.play.settled_roles."""
    data = event.get("event_data") or {}
    host, found = str(data.get("host")), (data.get("res") or {}).get("settled_roles")
    if not isinstance(found, dict):
        return {}
    return {
        (host, role): Cell(host, role, CellStatus.SKIPPED if reason else CellStatus.OK, reason=str(reason))
        for role, reason in found.items()
    }


def noted_failures(event: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """(host, role) of the failures that playbooks/verify.yml has noted on a host, which goes on with other roles."""
    data = event.get("event_data") or {}
    facts = (data.get("res") or {}).get("ansible_facts")
    roles = facts.get(NOTED) if isinstance(facts, dict) and not data.get("role") else None
    return tuple((str(data.get("host")), str(role)) for role in roles) if isinstance(roles, list) else ()


def _after_success(cell: Cell, data: dict[str, Any]) -> Cell:
    result = data.get("res") or {}
    action = str(data.get("task_action", "")).rpartition(".")[2]
    if action == "debug":
        return _after_role_message(cell, str(result.get("msg") or ""))
    if action in ACTIONS_WITHOUT_EFFECT:
        return cell
    changed = bool(result.get("changed"))
    cell = replace(cell, num_tasks=cell.num_tasks + 1, num_changed=cell.num_changed + changed)
    if cell.status.bad:  # a handler after the failure
        return cell
    # A role that runs tasks after it reported `skipped:` has left out only a part of its work.
    return replace(cell, status=CellStatus.CHANGED if cell.num_changed else CellStatus.OK)


def _after_role_message(cell: Cell, text: str) -> Cell:
    """Evaluate a debug message by which a role reports that it was skipped, or what is pending or left on the host."""
    skipped, left = SKIPPED.fullmatch(text.strip()), LEFT.fullmatch(text.strip())
    if skipped and skipped[1] in (None, cell.role) and not cell.status.bad:
        return replace(cell, status=CellStatus.SKIPPED, reason=skipped[2].strip())
    pending = PENDING.fullmatch(text.strip())
    if pending and pending[1] in (None, cell.role):
        return replace(cell, pending=pending[2].strip())
    return replace(cell, left=left[1].strip()) if left else cell


def _after_failure(cell: Cell, data: dict[str, Any], kind: str, address: str) -> Cell:
    if cell.status.bad:
        return cell
    text, task = _error_message(data.get("res") or {}), str(data.get("task") or "")
    if kind == "runner_on_unreachable":
        problem = problem_from_text(cell.host, text, address)
        return replace(
            cell, status=CellStatus.UNREACHABLE, task=task, message=problem["message"], remedy=problem["hint"]
        )
    remedy = remedy_of(text, cell.role, host=cell.host, address=address)
    return replace(cell, status=CellStatus.FAILED, task=task, message=text, remedy=remedy)


def _error_message(result: dict[str, Any]) -> str:
    """Error message of a failed result. A loop's message is in its items."""
    items = [row for row in result.get("results") or () if isinstance(row, dict)]
    for item in items:
        if item.get("failed") or item.get("unreachable"):
            return _error_message(item)
    text = str(result.get("msg") or "").strip()
    for prefix in ("Task failed: ", "Module failed: ", "Action failed: "):
        text = text.removeprefix(prefix)
    more = str(result.get("stderr") or result.get("module_stderr") or "").strip()
    url = str(result.get("url") or "")  # get_url names the URL only in its result
    parts = (text, more if more not in text else "", url if url not in text else "")
    return "\n".join(part for part in parts if part) or "the task failed without a message"


def finished_table(
    cells: dict[tuple[str, str], Cell],
    expected: tuple[tuple[str, str], ...],
    stats: dict[str, dict[str, int]],
    noted: Collection[tuple[str, str]] = (),
) -> tuple[Cell, ...]:
    """Final table in the plan's order. Rescued failures count as success, unless they are `noted`.

    Roles that did not run have a reason.
    """
    # Ansible validates arguments of roles that --tags leave out, too: of these, only failures are in the table.
    order = tuple(dict.fromkeys((*expected, *(key for key, cell in cells.items() if cell.status.bad))))
    found: list[Cell] = []
    for host, role in order:
        cell = cells.get((host, role))
        if cell is None:
            found.append(Cell(host, role, CellStatus.NOT_RUN, reason=_reason_not_run(host, cells.values(), noted)))
        elif (host, role) not in noted and _was_rescued(cell, stats):
            status = CellStatus.CHANGED if cell.num_changed else CellStatus.OK
            found.append(replace(cell, status=status, task="", message="", remedy=""))
        else:
            found.append(cell)
    return tuple(found)


def _was_rescued(cell: Cell, stats: dict[str, dict[str, int]]) -> bool:
    return cell.status is CellStatus.FAILED and cell.host in stats and not stats[cell.host].get("failures")


def ends_host(cell: Cell, noted: Collection[tuple[str, str]]) -> bool:
    """Whether the host ran no more roles: not after a failure of its own that is noted."""
    return cell.status.bad and ((cell.host, cell.role) not in noted or cell.status is CellStatus.STOPPED)


def stopped(cell: Cell, why: str = "the playbook ended while this role ran") -> Cell:
    """The cell of a role that did not come to its end: nobody knows whether it had done its work. A failure stays."""
    return cell if cell.status.bad else replace(cell, status=CellStatus.STOPPED, message=why)


def with_commands(cells: tuple[Cell, ...], asked: Asked) -> tuple[Cell, ...]:
    """The table with the inventory of its command in the commands of messages and remedies."""
    return tuple(
        replace(
            cell,
            reason=complete(cell.reason, asked),
            message=complete(cell.message, asked),
            remedy=complete(cell.remedy, asked),
            pending=complete(cell.pending, asked),
        )
        for cell in cells
    )


def _reason_not_run(host: str, cells: Iterable[Cell], noted: Collection[tuple[str, str]]) -> str:
    """The role after which the host was out."""
    bad = [cell for cell in cells if cell.host == host and ends_host(cell, noted)]
    return f"{bad[0].role} {bad[0].status} before it" if bad else "the playbook ended before this role"


def verdict_line(cells: tuple[Cell, ...], *, verified: bool = False) -> str:
    """Summary of the table in one line; `verified`: nothing was to be changed, so it tells how many roles hold."""
    hosts = dict.fromkeys(cell.host for cell in cells)
    bad = {host: text for host in hosts if (text := _failed_roles([cell for cell in cells if cell.host == host]))}
    found = _roles_that_hold(cells) if verified else f"changed={sum(cell.num_changed for cell in cells)}"
    summary = f"{counted(len(hosts), 'host')}, {found}"
    rows = ", ".join(f"{host} ({text})" for host, text in bad.items())
    return f"{summary}; {'not as provisioned' if verified else 'not done'}: {rows}" if bad else summary


def _failed_roles(cells: list[Cell]) -> str:
    """Roles of one host that failed; those that were stopped only if no other did."""
    bad = [cell for cell in cells if cell.status.bad]
    named = [cell for cell in bad if cell.status is not CellStatus.STOPPED] or bad
    return ", ".join(f"{cell.role} {cell.status}" for cell in named)


def _roles_that_hold(cells: tuple[Cell, ...]) -> str:
    """How many roles are as provisioned on all their hosts, out of those that were not skipped on all of them."""
    found: dict[str, set[CellStatus]] = {}
    for cell in cells:
        found.setdefault(cell.role, set()).add(cell.status)
    judged = [statuses for statuses in found.values() if statuses != {CellStatus.SKIPPED}]
    hold = sum(statuses <= {CellStatus.OK, CellStatus.SKIPPED} for statuses in judged)
    skipped = len(found) - len(judged)
    part = "" if hold == len(judged) else f"{hold} of "
    return f"{part}{counted(len(judged), 'role')} as provisioned" + (f", {skipped} skipped" if skipped else "")
