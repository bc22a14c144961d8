"""Which roles of the play have nothing to do or to say on a host: one process and two readings for all of them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ansible.plugins.action import ActionBase
from ansible.plugins.loader import filter_loader
from ansible.utils.vars import load_extra_vars
from ansible_collections.ddp.play.plugins.plugin_utils.role_templar import role_templar
from ansible_collections.ddp.play.plugins.plugin_utils.role_walk import (
    Question,
    UnknownError,
    Walk,
    Walker,
    argument_specs,
    own_variables,
    pattern_matches,
    tasks_by_role,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

REMEDY = "Correct these variables in the inventory; to see all problems of it: ddp-play inventory check -i INVENTORY"

# Ansible imports this in its main process, which forks one for each host: so the filters are loaded once for all.
with suppress(KeyError):  # no collections: not in Ansible
    filter_loader.get("ddp.play.host_state_settled")


class ActionModule(ActionBase):
    """Follows each role that the play imports up to its next question, asks the host for all of them, and goes on."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the settled roles, with the reasons of skipped ones, and the facts of the system.

        What cannot be read or judged here is left to the roles, and a host that is not reachable stays so. Fails only
        on arguments of a role that no task of it would refuse.
        """
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        wanted = self._wanted(variables)
        walks, refused = self._walks(wanted, variables)
        if refused:
            return {**result, "failed": True, "msg": f"{'; '.join(refused)}. {REMEDY}"}
        settled: dict[str, str] = {}
        facts: dict[str, Any] = {}
        answers: dict[str, Mapping[str, Any] | None] = dict.fromkeys(walks)
        while answers:
            questions = self._next(walks, answers, settled, variables)
            answers = dict(self._answers(questions, variables))
            for found in answers.values():
                facts.update(_of_the_system(found or {}))
                result["is_new"] = bool((found or {}).get("is_new")) or result.get("is_new", False)
        for role, reason in settled.items():
            if reason:
                self._display.display(f"{variables.get('inventory_hostname')}: skipped: {role}: {reason}")
        unsettled = [role for role in wanted if role not in settled]
        facts |= {"ddp_settled_roles": settled, "ddp_unsettled_roles": unsettled}
        return {**result, "settled_roles": settled, "ansible_facts": facts}

    def _wanted(self, variables: dict[str, Any]) -> list[str]:
        """The roles that this host has and that the tags select."""
        play, groups, host = self._task.get_play(), variables["group_names"], variables["inventory_hostname"]
        return [
            role
            for role, pattern in self._task.args["roles"].items()
            if {"all", "tagged", role} & set(play.only_tags) and role not in play.skip_tags
            if pattern_matches(pattern, groups, host)
        ]

    def _walks(self, wanted: list[str], variables: dict[str, Any]) -> tuple[dict[str, Walk], list[str]]:
        """The walks through the tasks of these roles, as far as the play imports them, and refused arguments.

        A role that refuses its arguments itself, as in provision, is not followed.
        """
        become = (bool(self._task.become), str(self._task.become_user or ""))
        extra, templar = load_extra_vars(self._loader), role_templar(self._loader)
        walks: dict[str, Walk] = {}
        refused: list[str] = []
        for role, tasks in tasks_by_role(self._task.get_play().tasks).items():
            if role not in wanted:
                continue
            walker = Walker(templar, role, own_variables(variables, tasks[0]._role, extra), become)
            spec, validates = argument_specs(tasks[0]._role)
            errors = walker.refused(spec)
            if not errors:
                walks[role] = walker.walk(tasks)
            elif not validates:
                refused += [f"{role}: {error}" for error in errors]
        return walks, refused

    def _next(
        self,
        walks: dict[str, Walk],
        answers: dict[str, Mapping[str, Any] | None],
        settled: dict[str, str],
        variables: dict[str, Any],
    ) -> dict[str, Question]:
        """The next question of each walk that has got an answer; one that ends is put into `settled`."""
        questions: dict[str, Question] = {}
        for role, answer in answers.items():
            try:
                questions[role] = walks[role].send(answer)
            except StopIteration as ended:
                settled[role] = str(ended.value)
            except UnknownError as unknown:
                self._display.vv(f"{variables.get('inventory_hostname')}: {role} is not settled: {unknown}")
        return questions

    def _answers(self, questions: dict[str, Question], variables: dict[str, Any]) -> dict[str, Mapping[str, Any]]:
        """What the host answers, by role; empty without questions, and if the host refuses to answer."""
        asked: list[Question] = []
        for question in questions.values():
            if question not in asked:
                asked.append(question)
        if not asked:
            return {}
        rows = [{"module": question.module, "arguments": question.arguments} for question in asked]
        found = self._execute_module("ddp.play.settled_roles", module_args={"questions": rows}, task_vars=variables)
        if found.get("failed"):
            self._display.vv(f"{variables.get('inventory_hostname')}: {found.get('msg')}")
            return {}
        return {role: found["answers"][asked.index(question)] for role, question in questions.items()}


def _of_the_system(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an answer that every role reads; those of GPUs and RDMA differ with what a role asks."""
    facts = answer.get("ansible_facts", {})
    return {name: value for name, value in facts.items() if not name.startswith("ddp_")}
