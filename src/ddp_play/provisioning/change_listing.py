"""Listing of the changes of a provisioning, or of its check, from Ansible's events. Pure."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ddp_play.provisioning.host_role_table import ACTIONS_WITHOUT_EFFECT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KEY = "ddp_changes"  # plugins/module_utils/changes.py: the rows in a module's result
MAX_TEXT = 4096  # characters of one row
NUMBERED = re.compile(r"(.*?)(\d+)(\D*)")


class ChangeKind(StrEnum):
    """What happens, the most dangerous first."""

    REMOVE = "remove"
    REBOOT = "reboot"
    RESTART = "restart"
    CHANGE = "change"
    ADD = "add"


class Owner(StrEnum):
    """Who made what is changed: the site or its distribution, ddp-play, or nobody, because it is not there yet."""

    THEIRS = "theirs"
    OURS = "ours"
    NEW = "new"


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One change of a host."""

    host: str
    role: str
    kind: ChangeKind
    what: str
    whose: Owner

    def to_json(self) -> dict[str, str]:
        """Document for `--json`."""
        return {name: str(value) for name, value in asdict(self).items()}


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """Changes of one kind that one role makes, to things of one owner."""

    role: str
    kind: ChangeKind
    whose: Owner
    what: tuple[str, ...]

    @property
    def danger(self) -> tuple[int, int]:
        """Sort key: the most dangerous change first."""
        return list(ChangeKind).index(self.kind), list(Owner).index(self.whose)


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Hosts that get the same changes."""

    hosts: tuple[str, ...]
    lines: tuple[ChangeLine, ...]


def changes_of_event(event: dict[str, Any]) -> tuple[ChangeRow, ...]:
    """Rows of one event of ansible-runner. A changed task whose module returns no rows gives one with its name.

    The result comes from the host, so rows of another shape count as none.
    """
    data = event.get("event_data") or {}
    host, role = data.get("host"), data.get("role")
    action = str(data.get("task_action", "")).rpartition(".")[2]
    if event.get("event") != "runner_on_ok" or not host or not role or action in ACTIONS_WITHOUT_EFFECT:
        return ()
    result = data.get("res") or {}
    rows = [row for one in _single_results(result) for row in _rows(one, action, str(data.get("task") or ""))]
    found = (ChangeRow(host, role, ChangeKind(row["kind"]), row["what"], Owner(row["whose"])) for row in rows)
    return tuple(dict.fromkeys(found))


def _single_results(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Results of a loop's items, or the one result."""
    items = result.get("results")
    if isinstance(items, list) and items and all(isinstance(item, dict) for item in items):
        return [item for item in items if not item.get("skipped")]
    return [result]


def _rows(result: dict[str, Any], action: str, task: str) -> Iterator[dict[str, str]]:
    rows = result.get(KEY)
    if isinstance(rows, list) and all(_is_row(row) for row in rows):
        yield from rows
    elif result.get("changed") or rows:
        yield _inferred(result, action, task)


def _is_row(row: Any) -> bool:
    if not isinstance(row, dict) or row.get("kind") not in list(ChangeKind) or row.get("whose") not in list(Owner):
        return False
    return isinstance(row.get("what"), str) and len(row["what"]) <= MAX_TEXT


def _inferred(result: dict[str, Any], action: str, task: str) -> dict[str, str]:
    """Row for a module that is not ours, from the fields that it returns."""
    path = result.get("dest") or result.get("path")
    if action in ("systemd_service", "systemd", "service") and result.get("name"):
        name = str(result["name"])
        return {"kind": _kind_of_unit(result), "what": f"unit {name}", "whose": _owner_of_unit(name)}
    if action == "mount" and result.get("name"):
        # The module does not tell a new mount from one of the site that gets other options.
        return {"kind": ChangeKind.CHANGE, "what": f"mount {result['name']}", "whose": Owner.THEIRS}
    if action == "reboot":
        return {"kind": ChangeKind.REBOOT, "what": "the host", "whose": Owner.THEIRS}
    kind = ChangeKind.REMOVE if result.get("state") == "absent" else ChangeKind.CHANGE
    if path:
        return {"kind": kind, "what": f"file {path}", "whose": _owner_of_file(str(path))}
    return {"kind": kind, "what": task.rpartition(" | ")[2], "whose": Owner.THEIRS}


def _kind_of_unit(result: dict[str, Any]) -> ChangeKind:
    """The module answers `started` for a restart and a reload too; `status` has the state before."""
    was_active = (result.get("status") or {}).get("ActiveState") == "active"
    restarted = result.get("state") == "started" and was_active and "enabled" not in result
    return ChangeKind.RESTART if restarted else ChangeKind.CHANGE


def _owner_of_unit(name: str) -> Owner:
    return Owner.OURS if name.startswith("ddp-") else Owner.THEIRS


def _owner_of_file(path: str) -> Owner:
    return Owner.OURS if re.search(r"/[^/]*\bddp\b[^/]*$", path) else Owner.THEIRS


def grouped(rows: Iterable[ChangeRow]) -> tuple[ChangeGroup, ...]:
    """Hosts with the same changes in one group, each with its lines; the most dangerous groups and lines first."""
    by_host: dict[str, list[ChangeRow]] = {}
    for row in dict.fromkeys(rows):
        by_host.setdefault(row.host, []).append(row)
    by_lines: dict[tuple[ChangeLine, ...], list[str]] = {}
    for host, found in by_host.items():
        by_lines.setdefault(_lines(found), []).append(host)
    groups = (ChangeGroup(tuple(hosts), lines) for lines, hosts in by_lines.items())
    return tuple(sorted(groups, key=lambda group: [line.danger for line in group.lines]))


def _lines(rows: list[ChangeRow]) -> tuple[ChangeLine, ...]:
    subjects: dict[tuple[str, ChangeKind, Owner], list[str]] = {}
    for row in rows:
        subjects.setdefault((row.role, row.kind, row.whose), []).append(row.what)
    lines = (ChangeLine(role, kind, whose, tuple(what)) for (role, kind, whose), what in subjects.items())
    return tuple(sorted(lines, key=lambda line: line.danger))


def host_ranges(hosts: Iterable[str]) -> str:
    """Short form of host names: `gpu[01-08,11], head`. Numbers are joined only if they have the same width."""
    names: dict[tuple[str, str, int], list[int]] = {}
    for host in hosts:
        match = NUMBERED.fullmatch(host) if not re.fullmatch(r"[\d.:]+", host) else None
        key = (match[1], match[3], len(match[2])) if match else (host, "", 0)
        names.setdefault(key, []).append(int(match[2]) if match else 0)
    return ", ".join(_range(*key, sorted(numbers)) for key, numbers in names.items())


def _range(head: str, tail: str, width: int, numbers: list[int]) -> str:
    if not width:
        return head
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    texts = [f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in spans]
    return f"{head}{texts[0]}{tail}" if len(numbers) == 1 else f"{head}[{','.join(texts)}]{tail}"
