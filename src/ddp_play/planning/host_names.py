"""Names of hosts: a run keeps files under them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

REMEDY = "rename it in the inventory, and put its address into ansible_host"


def name_problem(name: str) -> str:
    """Why a host cannot have this name; empty if it can."""
    if name in (".", ".."):
        return f"a host cannot be named {name}: files of a run have the host's name"
    if "/" in name or not name.isprintable():
        return "a host's name cannot have '/' or control characters: files of a run have the host's name"
    if name.startswith("-"):
        return "a host's name cannot begin with '-': programs read it as an option"
    return ""


def refuse_names(names: Iterable[str]) -> None:
    """UsageError for the first host with a name that it cannot have."""
    for name in names:
        if problem := name_problem(name):
            raise UsageError(f"host {name}: {problem}", hint=REMEDY)
