"""Files of ended attempts that hosts still have: the rows of `uncollected` in run.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Key = tuple[int, str]  # attempt, host


@dataclass(frozen=True, slots=True)
class WaitingFiles:
    """Files of an attempt that a host still has.

    `incomplete`: the host answered and sent all but what `missing` in run.json names. `limit_mib`: with which
    ddp_job_artifacts_max_mib it can send those of them that exceeded it; 0: none did.
    """

    incomplete: bool = False
    limit_mib: int = 0

    def to_json(self) -> dict[str, Any]:
        """Fields of a row of `uncollected` in run.json."""
        limit = {"artifacts_max_mib": self.limit_mib} if self.limit_mib else {}
        return {"incomplete": True, **limit} if self.incomplete else {}


def waiting_files(document: dict[str, Any]) -> dict[Key, WaitingFiles]:
    """(attempt, host) -> what that host of run.json still has, because it was lost or could not send it."""
    return {
        (int(row["attempt"]), str(row["host"])): WaitingFiles(
            bool(row.get("incomplete")), int(row.get("artifacts_max_mib") or 0)
        )
        for row in document.get("uncollected") or ()
    }


def worth_asking(found: dict[Key, WaitingFiles], limit_mib: int) -> set[Key]:
    """All of them with a higher limit; without one (0) those that would not only send the same again."""
    return {key for key, files in found.items() if limit_mib or not files.limit_mib}


def uncollected(document: dict[str, Any]) -> set[Key]:
    """(attempt, host) of every host of run.json that still has files."""
    return set(waiting_files(document))


def rows_of(found: dict[Key, WaitingFiles]) -> list[dict[str, Any]]:
    """The rows of `uncollected`, in order."""
    return [{"attempt": key[0], "host": key[1], **found[key].to_json()} for key in sorted(found)]
