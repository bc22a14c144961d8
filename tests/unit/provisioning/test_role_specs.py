"""Values compared with the argument specs of the roles."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.provisioning.role_specs import read_specs, value_problems

MOUNTS = {
    "type": "list",
    "elements": "dict",
    "options": {"server": {"type": "str", "required": True}, "options": {"type": "list", "elements": "str"}},
}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ({"type": "str"}, 580),
        ({"type": "bool"}, "yes"),
        ({"type": "int"}, "7"),
        ({"type": "float"}, 1.5),
        ({"type": "list", "elements": "str"}, "a,b"),
        ({"type": "raw"}, [1]),
        ({"type": "str", "choices": ["auto", "true", "false"]}, True),
        ({"type": "dict"}, "{{ site }}"),
        ({"type": "int"}, {"__ansible_vault": "..."}),
        (MOUNTS, [{"server": "s1"}]),
    ],
)
def test_values_that_fit(option: dict[str, Any], value: Any) -> None:
    assert value_problems("x", option, value) == ()


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ({"type": "str"}, ["a"], "a text"),
        ({"type": "str"}, ["http://ops:hunter2@p:1"], "http://***@p:1"),
        ({"type": "bool"}, "perhaps", "true or false"),
        ({"type": "int"}, True, "a whole number"),
        ({"type": "int"}, 1.5, "a whole number"),
        ({"type": "int"}, "many", "a whole number"),
        ({"type": "float"}, "many", "a number"),
        ({"type": "list"}, {"a": 1}, "a list"),
        ({"type": "dict"}, ["a"], "a mapping"),
        ({"type": "list", "elements": "int"}, [1, "b"], "x[1]"),
        ({"type": "list", "choices": ["a"]}, ["a", "b"], "one of a"),
        ({"type": "list"}, None, "write []"),
        (MOUNTS, [{}], "x[0] lacks server"),
        (MOUNTS, [{"server": "s", "sever": "s"}], "x[0] has no sever"),
        (MOUNTS, [{"server": "s", "options": {"a": 1}}], "x[0].options"),
    ],
)
def test_values_that_do_not(option: dict[str, Any], value: Any, words: str) -> None:
    found = value_problems("x", option, value)
    assert len(found) == 1
    assert words in found[0]


def test_specs_of_our_roles_are_read() -> None:
    specs = read_specs()
    assert {"base_os", "docker_engine", "ddp_job"} <= set(specs)
    assert specs["ddp_job"]["ddp_job_image"]["type"] == "str"
