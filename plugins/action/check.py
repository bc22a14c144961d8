"""Once for all hosts of a play: readings of each host, and tests between them, over one channel per host."""

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
    from ddp_play.ansible.plugin_variables import CHECK_SCOPE_ENV
    from ddp_play.checks import record_store
    from ddp_play.checks.check_exchange import exchange
    from ddp_play.checks.check_scope import scope_from_text
    from ddp_play.errors import DdpPlayError, UsageError
    from ddp_play.run.discovery import Discovery
except ImportError as error:
    raise AnsibleError(f"the Python package ddp-play is not installed where Ansible runs ({error})") from error

from ansible_collections.ddp.play.plugins.plugin_utils.host_approach import Approaches
from ansible_collections.ddp.play.plugins.plugin_utils.host_query import ask, query_for
from ansible_collections.ddp.play.plugins.plugin_utils.limit import refuse_unknown_limit, usage_failure


class ActionModule(ActionBase):
    """It judges nothing: the command that started the playbook does, from what the hosts answered."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return by host its facts or problem, its readings, and what it saw of its peers."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        installed_collection.check_same_build(Path(__file__))
        approaches = Approaches(self, variables)
        try:
            refuse_unknown_limit(variables)
            scope = scope_from_text(os.environ[CHECK_SCOPE_ENV])
            with contextlib.closing(Discovery(scope.budget.login_s(bounded_execution.answer_limit_s()))) as discovery:
                for host in variables["ansible_play_hosts_all"]:
                    ask(discovery, approaches, host, partial(query_for, engine=True, packages=True))
                discovery.finish()
                checked = exchange(discovery.rows, discovery.take(), scope, records=record_store.known_mbps)
                return {**result, "changed": False, "checked": checked}
        except UsageError as error:
            return {**result, **usage_failure(error)}
        except DdpPlayError as error:
            return {**result, "failed": True, "msg": str(error)}
