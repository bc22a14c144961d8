"""Reading of a host, and whether it is in the wanted state: both in one task, because each task costs a process."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.ddp.play.plugins.plugin_utils.conditions import holds, registered_names
from ansible_collections.ddp.play.plugins.plugin_utils.role_templar import role_templar

SETTLED = "settled"


class ActionModule(ActionBase):
    """Runs the module of the same name, and judges its result on the controller."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the module's result with `settled`: whether all conditions of the option `settled` hold."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        arguments = dict(self._task.args)
        conditions = arguments.pop(SETTLED, [])
        found = self._execute_module("ddp.play.host_state", module_args=arguments, task_vars=variables)
        result.update(found)
        if not result.get("failed"):
            templar = role_templar(self._loader)
            registered = dict.fromkeys(registered_names(self._task.register), result)
            result[SETTLED] = bool(conditions) and holds(templar, {**variables, **registered}, conditions)
        return result
