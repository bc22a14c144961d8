"""Conditions of a task over a host's variables and the result that the task registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible.errors import AnsibleError

if TYPE_CHECKING:
    from ansible.template import Templar


def registered_names(register: Any) -> list[str]:
    """Names of a task's `register`: a string up to ansible-core 2.20, later a mapping of names to expressions."""
    return [register] if isinstance(register, str) else list(register or ())


def judged(templar: Templar, variables: dict[str, Any], conditions: list[Any]) -> bool:
    """Whether all conditions hold over these variables. Raises AnsibleError for one that cannot be evaluated.

    A templar finds each filter once. A collection's filter is found by a look into all its modules of filters.
    """
    templar.available_variables = variables
    return all(templar.evaluate_conditional(condition) for condition in conditions)


def holds(templar: Templar, variables: dict[str, Any], conditions: list[Any]) -> bool:
    """Whether all conditions hold. One that cannot be evaluated does not: the role's own tasks then name the reason."""
    try:
        return judged(templar, variables, conditions)
    except AnsibleError:
        return False
