"""A role's tasks followed in one process as far as they only read the host and end the role.

Ansible starts a process for each task and host, also for a skipped one. Here the parsed tasks of a role are followed
in their order, with their conditions, arguments and variables; what they ask the host is handed out, so that the
questions of many roles can be put to it at once. A task that does anything else ends the walk without a result.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

from ansible.errors import AnsibleError
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.playbook.block import Block
from ansible.utils.vars import combine_vars
from ansible_collections.ddp.play.plugins.plugin_utils.conditions import holds, judged, registered_names

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from ansible.playbook.role import Role
    from ansible.playbook.task import Task
    from ansible.template import Templar

STATE = "ddp.play.host_state"
READS = (STATE, "ansible.builtin.setup", "ddp.play.gpu_facts", "ddp.play.rdma_facts")
SAYS, ASSERTS = "ansible.builtin.debug", "ansible.builtin.assert"
# The second ones are those of Ansible's own last task of a role.
META = ("ansible.builtin.meta", "meta")
ENDS = ("end_role", "role_complete")
# Keywords that give a task another meaning than its module, arguments and condition.
OTHER = ("loop", "loop_with", "delegate_to", "until", "async_val", "failed_when", "changed_when", "run_once", "notify")
PREFIX = "ansible_"


class UnknownError(Exception):
    """The walk cannot tell how the role goes on; the role has to tell."""


@dataclass(frozen=True)
class Question:
    """What a task asks the host: a module that only reads, and its arguments."""

    module: str
    arguments: dict[str, Any]


Walk: TypeAlias = "Generator[Question, Mapping[str, Any] | None, str]"


def pattern_matches(pattern: str, groups: list[str], host: str) -> bool:
    """Whether the pattern of a play, such as ranks:registry:!without_docker, has a host of these groups."""
    names = {"all", host, *groups}
    parts = pattern.split(":")
    excluded = {part[1:] for part in parts if part.startswith("!")}
    return not excluded & names and bool(names.intersection(parts))


def tasks_by_role(blocks: list[Any]) -> dict[str, list[Task]]:
    """Tasks of the roles that a play imports, by the roles' short names."""
    found: dict[str, list[Task]] = {}
    for task in tasks_in(blocks):
        if task._role is not None:
            found.setdefault(task._role.get_name(include_role_fqcn=False), []).append(task)
    return found


def own_variables(variables: Mapping[str, Any], role: Role, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Variables of a host as the tasks of this role have them in a play of its own, which the first play is not.

    There no role is public, so that `variables` are those of the site, and `extra` those of the command line. Without
    `vars`, in which Ansible has all once more: the lookup of a template copies all that it gets.
    """
    given = {name: value for name, value in variables.items() if name != "vars"}
    found: dict[str, Any] = reduce(combine_vars, (role.get_default_vars(), given, role.get_vars(), dict(extra)))
    return found


def argument_specs(role: Role) -> tuple[dict[str, Any], bool]:
    """What the role says of its arguments, and whether the followed file of tasks validates them when it runs."""
    # As Ansible has read it when it parsed the plays, without a copy of it.
    path = f"{role._role_path}/meta/argument_specs.yml"
    specs = role.get_loader().load_from_file(path, unsafe=True)["argument_specs"]
    options: dict[str, Any] = specs["main"]["options"]
    return options, role._from_files.get("tasks", "main") in specs


def tasks_in(blocks: list[Any]) -> Iterator[Task]:
    """Tasks of blocks in their order; a block that handles failures stays whole."""
    for entry in blocks:
        if isinstance(entry, Block) and not (entry.rescue or entry.always):
            yield from tasks_in(entry.block)
        else:
            yield entry


@dataclass
class Walker:
    """Follows the tasks of one role with the variables of one host; `become` is that of the process that asks.

    `templar` may be that of all roles: it gets this walk's variables before each use.
    """

    templar: Templar
    role: str
    variables: dict[str, Any]
    become: tuple[bool, str]

    def refused(self, spec: dict[str, Any]) -> list[str]:
        """What this spec refuses of the role's arguments, in Ansible's words; one that needs facts is not judged."""
        self.templar.available_variables = self.variables
        values: dict[str, Any] = {}
        for name in (name for name in spec if name in self.variables):
            with suppress(AnsibleError):
                values |= self.templar.template({name: self.variables[name]})
        judged = ArgumentSpecValidator({name: spec[name] for name in values})
        found = judged.validate(values, validate_role_argument_spec=True)
        return [str(message) for message in found.error_messages]

    def walk(self, tasks: list[Task]) -> Walk:
        """Yield questions, take their results; return why the role is skipped, empty if all is as wanted.

        Raises UnknownError if a task would do or say anything else.
        """
        said = ""
        for task in tasks:
            if isinstance(task, Block):
                raise UnknownError("a block with rescue or always")
            scope = self._scope(task)
            if not self._hold(task.when, scope):
                continue
            if any(getattr(task, name, None) for name in OTHER):
                raise UnknownError(f"{task.get_name()}: a keyword")
            if _ends(task):
                break
            if task.action in READS:  # roles write full names
                said = ""
                yield from self._ask(task, scope)
            else:
                said = self._say_or_assert(task, scope)
        return said

    def _scope(self, task: Task) -> dict[str, Any]:
        paths = [*task.get_search_path(), self.templar.basedir]
        return {**self.variables, **task.get_vars(), "ansible_search_path": list(dict.fromkeys(paths))}

    def _hold(self, that: Any, scope: dict[str, Any]) -> bool:
        try:
            return bool(judged(self.templar, scope, that if isinstance(that, list) else [that]))
        except AnsibleError as error:
            raise UnknownError(str(error)) from error

    def _say_or_assert(self, task: Task, scope: dict[str, Any]) -> str:
        """Why the role is skipped, if this task says it; empty for an assertion that holds, as for every other task."""
        if task.action == SAYS:
            return self._skipped(task, scope)
        if task.action == ASSERTS and self._hold(task.args.get("that", False), scope):
            return ""
        raise UnknownError(task.get_name())

    def _skipped(self, task: Task, scope: dict[str, Any]) -> str:
        text = str(self._final(task.args, scope).get("msg", "")).strip()
        found = re.fullmatch(rf"skipped: {self.role}: (?!pending:)(.+)", text, re.DOTALL)
        if not found:
            raise UnknownError(text)
        return found[1].strip()

    def _ask(self, task: Task, scope: dict[str, Any]) -> Generator[Question, Mapping[str, Any] | None, None]:
        if (bool(task.become), str(task.become_user or "")) != self.become:
            raise UnknownError(f"{task.get_name()}: another user")
        given = task.environment or []
        if any(self._final(given if isinstance(given, list) else [given], scope)):
            raise UnknownError(f"{task.get_name()}: an environment")
        arguments = dict(task.args)
        conditions = arguments.pop("settled", [])
        answer = yield Question(task.action, self._final(arguments, scope))
        result = dict(answer or {})
        self._learn(result)
        self.variables.update(dict.fromkeys(registered_names(task.register), result))
        if task.action == STATE:
            result["settled"] = bool(conditions) and holds(self.templar, self._scope(task), conditions)

    def _learn(self, result: dict[str, Any]) -> None:
        facts = {name.removeprefix(PREFIX): value for name, value in result.get("ansible_facts", {}).items()}
        self.variables["ansible_facts"] = {**self.variables.get("ansible_facts", {}), **facts}

    def _final(self, value: Any, scope: dict[str, Any]) -> Any:
        self.templar.available_variables = scope
        try:
            return self.templar.template(value)
        except AnsibleError as error:
            raise UnknownError(str(error)) from error


def _ends(task: Task) -> bool:
    return task.action in META and task.args.get("_raw_params") in ENDS
