"""Conditions over variables, and names of a task's result."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.ddp.play.plugins.plugin_utils.conditions import holds, judged, registered_names


@pytest.mark.parametrize(
    ("register", "names"), [("a", ["a"]), ({"a": "x", "b": "y"}, ["a", "b"]), (None, []), ("", []), ({}, [])]
)
def test_names_of_the_result(register: Any, names: list[str]) -> None:
    assert [name for name in registered_names(register) if name] == names


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], True),
        (["there"], True),
        (["there", "number == 2"], True),
        (["there", "number == 3"], False),
        (["unknown"], False),
        (["there.is.nothing"], False),
        ([False], False),
    ],
)
def test_all_conditions_hold_or_not(conditions: list[Any], expected: bool) -> None:
    trusted = [trust_as_template(row) if isinstance(row, str) else row for row in conditions]
    assert holds(Templar(loader=DataLoader()), {"there": True, "number": 2}, trusted) is expected


def test_the_reason_why_a_condition_cannot_be_evaluated() -> None:
    with pytest.raises(AnsibleError, match="unknown"):
        judged(Templar(loader=DataLoader()), {}, [trust_as_template("unknown")])
    assert judged(Templar(loader=DataLoader()), {}, []) is True
