"""Once: make the plan from the job's variables and all hosts' facts. Runs on the controller."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

try:
    from ddp_play.ansible import discover_action, installed_collection, plan_action
    from ddp_play.errors import DdpPlayError
    from ddp_play.planning.job import PREFIX, Job
    from ddp_play.planning.job_secrets import JobSecrets, Known, refuse_elsewhere, secret_name_globs, separate
except ImportError as error:
    raise AnsibleError(f"the Python package ddp-play is not installed where Ansible runs ({error})") from error

from ansible_collections.ddp.play.plugins.plugin_utils.vaulted import decrypted_texts, is_vaulted


class ActionModule(ActionBase):
    """Reads `ddp_job_*` itself: values are templated once, by Ansible, and secrets never become task arguments."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Write the plan into the run's directory. A job that cannot run fails with the error's message and hint."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        installed_collection.check_same_build(Path(__file__))
        values = {
            name: self._templar.template(variables[PREFIX + name])
            for name in Job.model_fields
            if PREFIX + name in variables
        }
        try:
            discovered, names = self._discovered(variables)
            secrets = self._secrets(values, variables)
            values["spares"] = values.get("spares") or list(
                (variables.get("groups") or {}).get(plan_action.SPARES) or ()
            )
            values["env"] = self._with_bare_keys(secrets.env)
            planned = plan_action.plan_job(
                values,
                discovered,
                variable_names=names,
                secrets=secrets,
                playbook_dir=str(variables.get("playbook_dir", ".")),
            )
        except DdpPlayError as error:
            plan_action.record_failure(error)
            return {**result, "failed": True, "msg": str(error)}
        return {**result, "changed": False, **planned}

    def _secrets(self, values: dict[str, Any], variables: dict[str, Any]) -> JobSecrets:
        """The secret values of the job; a secret in a variable that others can read is refused."""
        known = Known(is_vaulted, decrypted_texts(variables), secret_name_globs(values.get("secret_names")))
        given = self._templar.template(variables.get(PREFIX + "secrets"))
        secrets = separate(values.get("env"), given, known, os.environ)
        refuse_elsewhere(values, known, secrets)
        values.pop("registry_username", None)  # only the supervisor needs it
        return secrets

    def _discovered(self, variables: dict[str, Any]) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
        """Results of discovery by host, in the play's order, and all ddp_* variables of any host."""
        register = self._task.args["discovered"]
        hosts, hostvars = list(variables["ansible_play_hosts_all"]), variables["hostvars"]
        rows = {}
        if not discover_action.only_cached():
            rows = {host: hostvars[host].get(register) or {} for host in hosts}
        rows = discover_action.cached_facts(hosts, rows)
        return rows, tuple(sorted({name for row in rows.values() for name in row.get("variables") or ()}))

    @staticmethod
    def _with_bare_keys(env: dict[str, Any] | None) -> dict[str, Any]:
        """In YAML a key without a value is null and stays null: its value comes from the caller's environment."""
        return {} if env is None else env
