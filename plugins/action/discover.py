"""Per host: one execution of ddp-play's program, its facts, and how the host is reached. Runs on the controller."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase

try:
    from ddp_play.ansible import bounded_execution, discover_action, host_problems, installed_collection
    from ddp_play.errors import DdpPlayError
    from ddp_play.planning.job_secrets import Known
    from ddp_play.run.host_channel import Route
    from ddp_play.run.host_program import preamble, shell_command
except ImportError as error:
    raise AnsibleError(f"the Python package ddp-play is not installed where Ansible runs ({error})") from error

from ansible_collections.ddp.play.plugins.plugin_utils.ssh_connections import share_jump_host, ssh_argv
from ansible_collections.ddp.play.plugins.plugin_utils.vaulted import argument_texts, decrypted_texts

if TYPE_CHECKING:
    from ansible.plugins.connection import ConnectionBase

# Settings that a vaulted file of a host often has with its password, and that the bundle may show.
SHOWN = tuple(
    f"ansible_{name}"
    for name in (
        *("host", "port", "user", "private_key_file", "become_user", "become_method"),
        *("ssh_host", "ssh_port", "ssh_user", "ssh_private_key_file", "ssh_executable"),
    )
)


class ActionModule(ActionBase):
    """Returns `facts` and `route`, or `problem`; never fails, so that discovery of the other hosts goes on."""

    TRANSFERS_FILES = False
    _supports_check_mode = True
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Read the host's facts. Adds `variables`: the names of the ddp_* variables that Ansible has for the host."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        host = variables["inventory_hostname"]
        installed_collection.check_same_build(Path(__file__))
        args = self._task.args
        names = sorted(name for name in variables if name.startswith("ddp_") and name != "ddp_job_result")
        python, state_dir = self._python(variables), self._state_dir(variables)
        inventory = {"slots": _integer(args.get("slots")), "interface": args.get("interface") or None}
        wanted: dict[str, Any] = {key: args.get(key) or None for key in ("image", "shared_dir", "python", "user")}
        wanted["engine"] = bool(args.get("engine"))
        sent = time.time()
        try:
            self._refuse_secrets(variables)
            limit_s = bounded_execution.answer_limit_s()
            wanted["limit_s"] = limit_s * bounded_execution.HOST_PART
            share_jump_host(self._connection, self._play_context.remote_addr)
            command = self._in_host_dir(shell_command(python, "facts", json.dumps(wanted), state_dir=state_dir))
            with bounded_execution.bounded(limit_s):
                done = self._low_level_execute_command(command, in_data=preamble())
            facts = discover_action.parse_facts(
                done["stdout"], done["stderr"], sent=sent, received=time.time(), inventory=inventory
            )
        except AnsibleConnectionFailure as error:
            problem = host_problems.problem_from_text(host, str(error), self._address(host))
            return {**result, "changed": False, "problem": problem, "variables": names}
        except (AnsibleError, DdpPlayError, bounded_execution.NoAnswer) as error:
            text = getattr(error, "message", None) or str(error)
            hint = getattr(error, "hint", "")
            problem = host_problems.problem_from_text(host, text, self._address(host), reached=True, hint=hint)
            return {**result, "changed": False, "problem": problem, "variables": names}
        route = self._route(host, shell_command(python, "channel", state_dir=state_dir))
        return {**result, "changed": False, "facts": facts, "route": route, "variables": names}

    def _refuse_secrets(self, variables: dict[str, Any]) -> None:
        """HostNotReady if an argument of ssh or become is from a vault. An address or a user's name may be."""
        connection = self._connection
        arguments = self._argv(connection)
        become = connection.become
        if become:
            arguments += [str(become.get_option(name) or "") for name in ("become_exe", "become_flags")]
        shown = {str(self._templar.template(variables[name])) for name in SHOWN if name in variables}
        texts = (decrypted_texts(variables) - shown) | argument_texts(variables)
        discover_action.refuse_secret_arguments(arguments, Known(texts=texts))

    def _python(self, variables: dict[str, Any]) -> str:
        """The interpreter that the inventory names, or else the host's first python3."""
        given = self._templar.template(variables.get("ansible_python_interpreter", ""))
        return "" if not given or str(given).startswith("auto") else str(given)

    def _state_dir(self, variables: dict[str, Any]) -> str:
        """Directory for the host's state that the inventory names; empty if the host chooses it."""
        return str(self._templar.template(variables.get("ddp_state_dir", "")) or "")

    def _in_host_dir(self, command: str) -> str:
        """The command with another directory for the host's state, if a test sets one."""
        override = os.environ.get("DDP_PLAY_HOST_DIR")
        local = self._connection.transport == "local"
        return f"export DDP_PLAY_HOST_DIR='{override}'; {command}" if override and local else command

    def _address(self, host: str) -> str:
        address: str | None = getattr(self._play_context, "remote_addr", None)
        return address or host

    def _route(self, host: str, command: str) -> dict[str, Any]:
        """Data from which the supervisor opens its own channel to the host; contains no secret."""
        connection = self._connection
        command = self._in_host_dir(command)
        prompt = success = ""
        become = connection.become
        if become:
            command = become.build_become_command(command, connection._shell)
            prompt, success = become.prompt or "", become.success or ""
        command = f"/bin/sh -c {connection._shell.quote(command)}"
        asks = self._asks_password(connection)
        return Route(host, tuple(self._argv(connection)), command, prompt, success, asks_password=asks).to_json()

    def _argv(self, connection: ConnectionBase) -> list[str]:
        """Command line of Ansible's connection plugin, up to the place of the remote command."""
        if connection.transport == "local":
            return ["/bin/sh", "-c"]
        if connection.transport != "ssh":
            raise AnsibleError(f"connection {connection.transport} is not supported; use ssh or local")
        words: list[str] = ssh_argv(connection, self._play_context.remote_addr)
        return words

    def _asks_password(self, connection: ConnectionBase) -> bool:
        if connection.transport != "ssh":
            return False
        return bool(connection.get_option("password") or self._play_context.password)


def _integer(value: Any) -> int | None:
    """A slot count as a number; the plan refuses other values."""
    if value in (None, ""):
        return None
    try:
        return int(value)
    except (TypeError, ValueError):
        raise AnsibleError(f"ddp_slots is {value!r}; it must be a whole number from 1 up") from None
