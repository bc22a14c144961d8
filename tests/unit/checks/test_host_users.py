"""Hosts that somebody uses get no load: runs of anybody, and processes on GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.host_users import idle, used_by
from tests.unit.build import gpus
from tests.unit.checks.fleets import facts

RUN = {"run": "night", "owner": "kim", "guard_alive": True}


@pytest.mark.parametrize(
    ("fields", "value", "why"),
    [
        ({}, [], ""),
        ({}, ["run night of pat"], "no load where somebody is: run night of pat"),
        ({"runs": (RUN,)}, None, "no load where somebody is: run night of kim"),
        ({"runs": ({**RUN, "guard_alive": False},)}, None, ""),
        ({"runs": (RUN,)}, [], ""),
        ({"gpus": gpus(1, users=("4711 python",))}, [], "no load where somebody is: GPU 0: 4711 python"),
    ],
)
def test_who_uses_a_host(fields: dict[str, Any], value: Any, why: str) -> None:
    readings = {} if value is None else {"living_runs": {"value": value, "took_s": 0.1}}
    assert used_by(facts(1, **fields), readings) == why


@pytest.mark.parametrize("row", [{"problem": "no answer within 10 s"}, [], "odd", {"value": "odd"}])
def test_a_host_that_does_not_tell_is_judged_by_its_facts(row: Any) -> None:
    hosts = {"h1": facts(1, runs=(RUN,)), "h2": facts(2)}
    assert list(idle(hosts, {name: {"living_runs": row} for name in hosts})) == ["h2"]
    assert list(idle(hosts, {})) == ["h2"]
