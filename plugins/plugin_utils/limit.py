"""Refusal of a `--limit` with names that the inventory does not have, where Ansible has started a playbook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.limit_refusal import lines_below
from ddp_play.planning.limit_names import refuse_unknown_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ddp_play.errors import UsageError


def refuse_unknown_limit(variables: Mapping[str, Any]) -> None:
    """Raise UsageError if --limit has a name that the inventory does not have: Ansible only warns of it."""
    groups = variables.get("groups") or {}
    if limit := variables.get("ansible_limit"):
        refuse_unknown_names(str(limit), tuple(groups), tuple(groups.get("all") or ()), lines_below(str(Path.cwd())))


def usage_failure(error: UsageError) -> dict[str, Any]:
    """What a task returns for a mistake of the command line: ddp-play ends with exit code 64."""
    return {"failed": True, "msg": str(error), "usage_error": {"message": error.message, "hint": error.hint}}
