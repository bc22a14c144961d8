"""How Ansible reaches each host of a play: its connection plugin with all options, without a task over the hosts.

A task over all hosts starts a process per host. Here one process takes the steps of Ansible's own `TaskExecutor` from a
host's variables to its connection plugin, for one host after the other, and stops before the action.
"""

from __future__ import annotations

import inspect
import multiprocessing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from ansible._internal._task import TaskContext
from ansible.errors import AnsibleError
from ansible.executor.task_executor import TaskExecutor
from ansible.playbook.task import Task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible.inventory.host import Host
    from ansible.playbook.play_context import PlayContext
    from ansible.plugins.action import ActionBase
    from ansible.plugins.connection import ConnectionBase
    from ansible.template import Templar


# Since ansible-core 2.21 the executor takes the task and its variables from TaskContext.
OWN_CONTEXT = "task" not in inspect.signature(TaskExecutor.__init__).parameters


@dataclass(frozen=True)
class Approach:
    """A host as a task on it would find it. `connection` is not open yet."""

    host: str
    address: str
    connection: ConnectionBase
    variables: dict[str, Any]
    templar: Templar

    def value(self, name: str) -> Any:
        """A variable of the host, templated; empty if it is not set."""
        return self.templar.template(self.variables.get(name, ""))

    def become_password(self) -> str:
        """The password for privilege escalation; empty without one."""
        become = self.connection.become
        return str(become.get_option("become_pass") or "") if become else ""

    def ssh_password(self) -> str:
        """The password of the login; empty without one."""
        return str(self.connection.get_option("password") or "") if self.connection.transport == "ssh" else ""


class _ReadyError(BaseException):
    """Not an Exception: the executor makes those a result."""

    def __init__(self, connection: ConnectionBase, address: str, variables: dict[str, Any]) -> None:
        super().__init__()
        self.found = (connection, address, variables)


class _Executor(TaskExecutor):  # type: ignore[misc]
    """Raises when the connection is ready, in place of loading an action plugin."""

    def _get_action_handler_with_module_context(self, templar: Any) -> NoReturn:
        raise _ReadyError(self._connection, self._play_context.remote_addr, templar.available_variables)


class Approaches:
    """Approaches to the hosts of the play that an action belongs to."""

    def __init__(self, action: ActionBase, task_vars: dict[str, Any]) -> None:
        self._action, self._task_vars = action, task_vars
        self._task = action._task
        self._manager = self._task.get_variable_manager()
        self._play = self._task.get_play()

    def to(self, host: str) -> Approach:
        """The approach to one host. Raises AnsibleError if there is none, as a task on this host would."""
        target = self._manager._inventory.get_host(host)
        task = self._fresh_task()
        variables = self._manager.get_vars(
            play=self._play,
            host=target,
            task=task,
            _hosts=self._task_vars["ansible_play_batch"],
            _hosts_all=self._task_vars["ansible_play_hosts_all"],
        )
        try:
            result = self._execute(target, task, variables)
        except _ReadyError as ready:
            connection, address, seen = ready.found
            templar = self._action._templar.copy_with_new_env(available_variables=seen)
            return Approach(host, address or host, connection, seen, templar)
        if result.get("skipped"):
            raise AnsibleError("a condition (when) of the play or the role leaves this host out")
        raise AnsibleError(str(result.get("msg") or "Ansible finds no connection to it"))

    def _execute(self, host: Host, task: Task, variables: dict[str, Any]) -> Mapping[str, Any]:
        """Ansible's result of a task that did not come to its action. Raises _ReadyError where it would."""
        action = self._action
        common = (self._play_context(), action._loader, action._shared_loader_obj, None, self._manager)
        if not OWN_CONTEXT:
            result: Mapping[str, Any] = _Executor(host, task, variables, *common).run()
            return result
        with TaskContext.create(task=task, task_vars=variables, host_name=host.name):
            task.squash()
            done = _Executor(host, *common).run()
        return {"skipped": done.skipped, "msg": done.msg}

    def _fresh_task(self) -> Task:
        """A task in the place of the action's: that one has its keywords templated for the first host already."""
        task = self._task
        data = {"name": task.name, "ansible.builtin.ping": {}}
        return Task.load(
            data, block=task._parent, role=task._role, variable_manager=self._manager, loader=self._action._loader
        )

    def _play_context(self) -> PlayContext:
        """Settings of the command line (-u, -k, -K), without those of the first host."""
        worker = multiprocessing.current_process()
        return getattr(worker, "_play_context", None) or self._action._play_context
