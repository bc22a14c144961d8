"""YAML of roles does not compute: no statement of Jinja, and few filters in an expression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jinja2 import Environment, nodes

from tests.content.role_files import ROLES, Literal, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Keys whose value is an expression without braces.
CONDITIONS = ("when", "that", "until", "changed_when", "failed_when")
MAX_FILTERS = 3


def role_files(role: Path) -> list[Path]:
    return sorted(path for name in ("vars", "tasks", "defaults", "handlers") for path in role.glob(f"{name}/*.yml"))


def templates_in(node: Any, key: str = "") -> Iterator[str]:
    """Every string of a YAML document as a template; a condition gets the braces that Ansible adds."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from templates_in(value, name)
    elif isinstance(node, list):
        for value in node:
            yield from templates_in(value, key)
    elif isinstance(node, str) and not isinstance(node, Literal):
        yield "{{ (" + node + ") }}" if key in CONDITIONS and "{{" not in node else node


def most_filters(template: str) -> int:
    """Filters in the longest expression of a template."""
    output = [
        part
        for node in Environment().parse(template.replace("\\", "\\\\")).find_all(nodes.Output)
        for part in node.nodes
    ]
    return max((len(list(part.find_all(nodes.Filter))) + isinstance(part, nodes.Filter) for part in output), default=0)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_yaml_has_no_jinja_statement(role: Path) -> None:
    """What computes stands in plugins/filter, with types and tables of tests."""
    assert [path.name for path in role_files(role) if "{%" in path.read_text()] == []


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_no_expression_has_many_filters(role: Path) -> None:
    found = [(path.name, text) for path in role_files(role) for text in templates_in(read(path))]
    assert [(name, text) for name, text in found if most_filters(text) > MAX_FILTERS] == []


@pytest.mark.parametrize(
    ("document", "filters"),
    [
        ({"x": "no template | at | all | a | b"}, 0),
        ({"x": "{{ a | b | c | d }} {{ a | b }}"}, 3),
        ({"x": [{"y": "{{ (a | b) ~ ((c | d | e) if (f | g) else 0) }}"}]}, 4),
        ([{"name": "Verify", "when": "(a | b | c | d | e) == 1"}], 4),
        ([{"ansible.builtin.assert": {"that": ["a | b == 1", "a is b"]}}], 1),
    ],
)
def test_filters_are_counted(document: Any, filters: int) -> None:
    assert max(most_filters(text) for text in templates_in(document)) == filters
