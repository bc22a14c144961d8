"""Per host: list the runs that ddp-play's program finds there, remove exactly the listed ones, read facts or usage."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

try:
    from ddp_play.ansible import bounded_execution, discover_action, host_problems
    from ddp_play.ansible.plugin_variables import SWEEP_ORDERS_ENV, SWEEP_VERB_ENV
    from ddp_play.errors import HostNotReady, UsageError
    from ddp_play.run.host_program import preamble
except ImportError as error:
    raise AnsibleError(f"the Python package ddp-play is not installed where Ansible runs ({error})") from error

from ansible_collections.ddp.play.plugins.plugin_utils.host_approach import Approach
from ansible_collections.ddp.play.plugins.plugin_utils.host_query import (
    inventory_facts,
    program_command,
    wanted_facts,
)
from ansible_collections.ddp.play.plugins.plugin_utils.limit import refuse_unknown_limit, usage_failure
from ansible_collections.ddp.play.plugins.plugin_utils.ssh_connections import share_jump_host


class ActionModule(ActionBase):
    """ddp-play passes the verb and its arguments in the environment of its playbook run."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the program's answer: the runs that the host knows, what could not be removed, or host facts."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        try:
            refuse_unknown_limit(variables)
        except UsageError as error:
            return {**result, **usage_failure(error)}
        verb = os.environ[SWEEP_VERB_ENV]
        limit_s = bounded_execution.CLEAN_S if verb == "clean" else bounded_execution.answer_limit_s()
        host = variables["inventory_hostname"]
        approach = Approach(host, self._play_context.remote_addr or host, self._connection, variables, self._templar)
        arguments = _arguments(verb, approach, limit_s * bounded_execution.HOST_PART)
        if not arguments:
            return {**result, "changed": False, "answer": {"left": []}}
        share_jump_host(approach.connection, approach.address)
        command = program_command(approach, verb, *arguments)
        sent = time.time()
        try:
            with bounded_execution.bounded(limit_s):
                done = self._low_level_execute_command(command, in_data=preamble())
            answer = discover_action.parse_answer(done["stdout"], done["stderr"])
            if verb == "usage":
                answer = {**answer, "slots": inventory_facts(approach)["slots"]}
            if verb == "facts":
                answer = discover_action.checked_facts(
                    json.dumps(answer).encode(), sent=sent, received=time.time(), inventory=inventory_facts(approach)
                )
        except (bounded_execution.NoAnswer, HostNotReady) as error:
            problem = host_problems.problem_from_text(
                host, error.message, approach.address, reached=True, hint=getattr(error, "hint", "")
            )
            hint = f"\n  -> {problem['hint']}" if problem["hint"] else ""
            return {**result, "failed": True, "msg": problem["message"] + hint}
        return {**result, "changed": verb == "clean", "answer": answer}


def _arguments(verb: str, approach: Approach, limit_s: float) -> list[str]:
    """The arguments of the verb on this host; empty if nothing is to be done there."""
    orders = json.loads(Path(os.environ[SWEEP_ORDERS_ENV]).read_text(encoding="utf-8"))
    if verb == "clean":
        order = orders.get(approach.host)
        return [json.dumps(order)] if order else []
    if verb == "usage":
        return [str(limit_s), json.dumps(orders)]
    if verb == "facts":
        return [str(limit_s), json.dumps(wanted_facts(approach, engine=True))]
    return [str(limit_s)]
