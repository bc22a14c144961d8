"""Roles and playbooks as their files say, for the tests that compare them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from ddp_play.provisioning.role_specs import JOB_ENTRY, MAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.parent.parent for path in (ROOT / "roles").glob("*/defaults/main.yml"))
PLAYBOOKS = sorted((ROOT / "playbooks").glob("*.yml"))


class Loader(yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):  # type: ignore[misc]
    """Knows the tags Ansible adds to YAML."""


class Literal(str):
    """A string that Ansible does not evaluate as a template."""

    __slots__ = ()


for tag in ("!unsafe", "!vault"):
    Loader.add_constructor(tag, lambda _loader, node: Literal(node.value))


@functools.cache
def read(path: Path) -> Any:
    """A YAML file; many tests read the same one and none changes it."""
    return yaml.load(path.read_text(), Loader=Loader)


def spec_of(role: Path) -> dict[str, dict[str, Any]]:
    entries = read(role / "meta/argument_specs.yml")["argument_specs"]
    options: dict[str, dict[str, Any]] = entries[MAIN if MAIN in entries else JOB_ENTRY]["options"]
    return options


def tasks_in(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, list):
        for item in node:
            yield from tasks_in(item)
    elif isinstance(node, dict):
        yield node
        for key in ("block", "rescue", "always", "tasks", "pre_tasks", "post_tasks", "handlers"):
            yield from tasks_in(node.get(key, []))


def task_files() -> list[Path]:
    return sorted([*ROOT.glob("roles/*/tasks/*.yml"), *ROOT.glob("roles/*/handlers/*.yml"), *PLAYBOOKS])
