"""Once: carry out the plan on all hosts and wait until the run has ended. Runs on the controller."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase

try:
    from ddp_play.ansible import installed_collection, registry_server
    from ddp_play.bundle.outcome import RunStatus
    from ddp_play.errors import DdpPlayError
    from ddp_play.planning.job import PREFIX
    from ddp_play.planning.job_secrets import Known, secret_name_globs, separate
    from ddp_play.run import supervise_action
except ImportError as error:
    raise AnsibleError(f"the Python package ddp-play is not installed where Ansible runs ({error})") from error

from ansible_collections.ddp.play.plugins.plugin_utils.vaulted import decrypted_texts, is_vaulted

SSH_PASSWORD_VARIABLES = ("ansible_password", "ansible_ssh_pass", "ansible_ssh_password")
BECOME_PASSWORD_VARIABLES = ("ansible_become_password", "ansible_become_pass", "ansible_sudo_pass")


class ActionModule(ActionBase):
    """One plugin holds all channels: per-host plugins would be separate processes and could not stop one another."""

    TRANSFERS_FILES = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return when the run has ended. Failed unless it succeeded; `exit_code` is that of the verdict."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        installed_collection.check_same_build(Path(__file__))
        if self._task.check_mode:
            return {**result, "skipped": True, "msg": "check mode: the plan was made, nothing was started"}
        try:
            outcome = supervise_action.supervise_run(
                self._task.args["run_dir"],
                secret_values=self._secrets(variables),
                registry=self._registry(variables),
                become_passwords=self._passwords(variables, BECOME_PASSWORD_VARIABLES, "become_pass"),
                ssh_passwords=self._passwords(variables, SSH_PASSWORD_VARIABLES, "password"),
            )
        except DdpPlayError as error:
            return {**result, "failed": True, "msg": str(error)}
        verdict = outcome.verdict
        return {
            **result,
            "changed": True,
            "failed": outcome.status is not RunStatus.SUCCEEDED,
            "msg": verdict.message,
            "status": str(outcome.status),
            "exit_code": verdict.exit_code,
            "run_dir": self._task.args["run_dir"],
            "rank": verdict.rank,
            "host": verdict.host,
            "log_tail": list(verdict.tail) if outcome.status is RunStatus.FAILED else [],
        }

    def _secrets(self, variables: dict[str, Any]) -> dict[str, str]:
        env, given, names = (
            self._templar.template(variables.get(PREFIX + name)) for name in ("env", "secrets", "secret_names")
        )
        known = Known(is_vaulted, decrypted_texts(variables), secret_name_globs(names))
        return separate(env, given, known, os.environ).values

    def _registry(self, variables: dict[str, Any]) -> dict[str, str]:
        username = self._templar.template(variables.get(PREFIX + "registry_username")) or ""
        password = self._templar.template(variables.get(PREFIX + "registry_password")) or ""
        if not (username and password):
            return {}
        image = str(self._templar.template(variables.get(PREFIX + "image")))
        return {"server": registry_server.registry_of(image), "username": username, "password": password}

    def _passwords(self, variables: dict[str, Any], names: tuple[str, ...], default_name: str) -> dict[str, str]:
        """Passwords by host, for the channels; they are only sent to the prompt and never stored."""
        found = {}
        default = getattr(self._play_context, default_name, None)
        for host in variables["ansible_play_hosts_all"]:
            values = variables["hostvars"][host]
            given = next((values[name] for name in names if values.get(name)), default)
            if given:
                found[host] = str(given)
        return found
