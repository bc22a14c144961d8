"""Per host: the mark of the quarantine, and the end of the note that a new host was not checked yet."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

try:
    from ddp_play.ansible.plugin_variables import MARK_ORDERS_ENV
    from ddp_play.checks.quarantine_marks import CHECKED
except ImportError as error:
    raise AnsibleError(f"the Python package ddp-play is not installed where Ansible runs ({error})") from error


class ActionModule(ActionBase):
    """ddp-play passes the options by host in a file. They are no templates: texts in them come from hosts."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what the module answers; nothing for a host without an order."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        orders = json.loads(Path(os.environ[MARK_ORDERS_ENV]).read_text(encoding="utf-8"))
        order = orders.get(variables["inventory_hostname"])
        if order is None:
            return {**result, "changed": False}
        if order == CHECKED:
            module, arguments = "ddp.play.host_record", {"role": "acceptance", "state": "restored"}
        else:
            module, arguments = "ddp.play.host_quarantine", order
        found = self._execute_module(module, module_args=arguments, task_vars=variables)
        return {**result, "kept": "", **found}
