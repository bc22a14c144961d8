"""Announcement of changes, in check mode only, that the next tasks make with programs that have no check mode."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.ddp.play.plugins.module_utils import changes

KINDS = [changes.ADD, changes.CHANGE, changes.RESTART, changes.REMOVE, changes.REBOOT]
OPTIONS: dict[str, dict[str, Any]] = {
    "kind": {"choices": KINDS, "required": True},
    "what": {"type": "list", "elements": "str", "required": True},
    "whose": {"choices": [changes.NEW, changes.OURS, changes.THEIRS], "default": changes.THEIRS},
}


class ActionModule(ActionBase):
    """Runs on the controller and connects to no host."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return one row per name in `what`; outside check mode none, and no change."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _, want = self.validate_argument_spec(OPTIONS)
        rows = [changes.change(want["kind"], name, want["whose"]) for name in want["what"]]
        checks = bool(self._task.check_mode)
        return {**result, "changed": checks and bool(rows), changes.KEY: rows if checks else []}
