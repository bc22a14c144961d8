"""Rows of a run's ended attempts in run.json (`attempts`)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.paths import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.bundle.outcome import Verdict
    from ddp_play.bundle.writer import Bundle
    from ddp_play.run.attempt_assignment import Assignment


class AttemptHistory:
    """The ended attempts of one run. Attempts whose ranks were not started are not among them."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self.rows: list[dict[str, Any]] = list(read_json(bundle.paths.run).get("attempts") or ())

    def before(self, attempt: int) -> list[dict[str, Any]]:
        """Rows of other attempts. A supervisor that died may have recorded this one already."""
        return [row for row in self.rows if row["attempt"] != attempt]

    @property
    def retired(self) -> dict[str, str]:
        """Hosts that the run no longer uses, with reasons: an engine that gives hosts anew has put them right."""
        last = max((index for index, row in enumerate(self.rows) if row.get("requeued")), default=-1)
        return {host: why for row in self.rows[last + 1 :] for host, why in row["retired"].items()}

    def add(
        self,
        assignment: Assignment,
        verdict: Verdict,
        reason: str,
        retired: Mapping[str, str],
        *,
        requeued: bool = False,
    ) -> None:
        """Record how this attempt ended, why there is a restart or none, and the hosts that it no longer uses.

        `requeued`: the next attempt is in another allocation.
        """
        row = {
            "attempt": assignment.attempt,
            "hosts": [host.name for host in assignment.plan.hosts],
            "started": read_json(self._bundle.paths.run).get("started"),
            "ended": time.time(),
            "verdict": verdict.kind,
            "message": verdict.message,
            "fault": verdict.host or "",
            "retired": dict(retired),
            "reason": reason,
            **({"requeued": True} if requeued else {}),
        }
        self.rows = [*self.before(assignment.attempt), row]
        self._bundle.update_run(attempts=self.rows)
