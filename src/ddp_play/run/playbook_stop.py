"""Stop requests while the playbook is not in the role's action: it gathers facts, or runs tasks of the user.

The action reads the requests itself from its first step to its last. Outside of it nobody else would.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.run_locks import is_locked
from ddp_play.run.stop_requests import StopRequests

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths

# The action plugin of the role ddp_job.
OWN_ACTION = "ddp.play.run"
# A request is this old before the playbook is ended: the event that the action has begun may be on its way.
PATIENCE_S = 1.0
# Events with the result of a task on a host -> its status in the journal.
TASK_EVENTS = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
    "runner_on_skipped": "skipped",
}


class PlaybookStop:
    """Says when the playbook of a run is to be ended from outside. `requested`: it was ended for that reason."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._requests = StopRequests(paths)
        self._in_action = False
        self._since: float | None = None
        self.requested = False

    def on_event(self, event: dict[str, Any]) -> None:
        """Follow where the playbook is."""
        if (event.get("event_data") or {}).get("task_action") != OWN_ACTION:
            return
        if event.get("event") == "playbook_on_task_start":
            self._in_action = True
        elif event.get("event") in TASK_EVENTS:
            self._in_action = False

    def is_due(self) -> bool:
        """Is the run to end, and nobody there who ends it?"""
        if self._in_action or not self._requests.ends_the_run() or is_locked(self._paths.lock):
            self._since = None
            return False
        self._since = time.monotonic() if self._since is None else self._since
        self.requested = time.monotonic() - self._since >= PATIENCE_S
        return self.requested
