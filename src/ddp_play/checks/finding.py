"""A finding of a check: what was seen where, whether that suffices, why it matters, and the command that helps."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ddp_play.errors import CheckFailed, HostNotReady

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTROLLER = "controller"


class Status(StrEnum):
    """What a check has found. Without data it is UNCHECKED, never OK."""

    OK = "ok"
    UNCHECKED = "not checked"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check, for all the places where it found the same."""

    check: str
    status: Status
    value: str  # what was seen; of UNCHECKED the reason
    why: str = ""  # what needs it
    command: str = ""  # that helps
    where: tuple[str, ...] = (CONTROLLER,)
    unreachable: bool = False  # these hosts could not be asked at all
    directions: tuple[tuple[str, str], ...] = ()  # (from, to): of what lies between two hosts
    limit: str = ""  # that the value was compared with
    source: str = ""  # where the limit comes from
    others: str = ""  # what the other hosts have
    look: str = ""  # command that shows the value on the host
    broken: bool = False  # UNCHECKED although it can be checked there: a tool hung or failed

    def to_json(self) -> dict[str, Any]:
        """Row of the document for `--json`; fields that only some checks have are left out where they are empty."""
        more = {name: text for name in ("limit", "source", "others", "look") if (text := getattr(self, name))}
        if self.directions:
            more["directions"] = [{"from": start, "to": end} for start, end in self.directions]
        return {
            "check": self.check,
            "status": str(self.status),
            "where": list(self.where),
            "value": self.value,
            "why": self.why,
            "command": self.command,
            **more,
        }


def exit_class(findings: Iterable[Finding]) -> str:
    """Class of the exit code.

    A host that could not be asked outweighs failures, since its own are unknown. A check that broke does not: a failure
    is known then.
    """
    rows = tuple(findings)
    failed = [row for row in rows if row.status is Status.FAIL]
    if any(row.unreachable for row in failed):
        return HostNotReady.kind
    if failed:
        return CheckFailed.kind
    return HostNotReady.kind if any(row.broken for row in rows) else "done"


def exit_code(findings: Iterable[Finding]) -> int:
    """0 if nothing failed, else the exit code of the class."""
    codes = {HostNotReady.kind: HostNotReady.exit_code, CheckFailed.kind: CheckFailed.exit_code}
    return codes.get(exit_class(findings), 0)


def count_by_status(findings: Iterable[Finding]) -> dict[Status, int]:
    """Number of findings of every status, the worst first."""
    rows = list(findings)
    return {status: sum(row.status is status for row in rows) for status in reversed(Status)}
