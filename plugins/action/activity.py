"""Once for all hosts of a play: runs and load of each host, again and again, over one channel per host."""

from __future__ import annotations

import contextlib
import os
from functools import partial
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

try:
    from ddp_play.ansible import bounded_execution, installed_collection
    from ddp_play.ansible.plugin_variables import ACTIVITY_ENV
    from ddp_play.errors import DdpPlayError, UsageError
    from ddp_play.run.discovery import Discovery
    from ddp_play.run.fleet_activity import ActivityOrders, FleetActivity, serve
except ImportError as error:
    raise AnsibleError(f"the Python package ddp-play is not installed where Ansible runs ({error})") from error

from ansible_collections.ddp.play.plugins.plugin_utils.host_approach import Approaches
from ansible_collections.ddp.play.plugins.plugin_utils.host_query import ask, query_for
from ansible_collections.ddp.play.plugins.plugin_utils.limit import refuse_unknown_limit, usage_failure


class ActionModule(ActionBase):
    """The answers go to a file: the command that started the playbook shows them."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return when nobody looks any more, or after the wanted number of answers."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        installed_collection.check_same_build(Path(__file__))
        approaches = Approaches(self, variables)
        try:
            refuse_unknown_limit(variables)
            orders = ActivityOrders.from_text(os.environ[ACTIVITY_ENV])
            with contextlib.closing(Discovery(bounded_execution.answer_limit_s())) as discovery:
                for host in variables["ansible_play_hosts_all"]:
                    ask(discovery, approaches, host, partial(query_for, engine=False))
                discovery.finish()
                passwords = discovery.passwords()
                with contextlib.closing(FleetActivity(discovery.rows, discovery.take(), passwords)) as fleet:
                    serve(fleet, orders)
        except UsageError as error:
            return {**result, **usage_failure(error)}
        except DdpPlayError as error:
            return {**result, "failed": True, "msg": str(error)}
        return {**result, "changed": False, "answered": True}
