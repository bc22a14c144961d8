"""Who uses a shared environment: busy hosts and hosts that nobody could ask."""

from __future__ import annotations

from typing import Any

from ansible_collections.ddp.play.plugins.filter import python_env


def state(*reasons: str) -> dict[str, Any]:
    return {"__python_env_state": {"occupants": {"reasons": list(reasons)}}}


def test_busy_hosts() -> None:
    hosts = {"a": state(), "b": state("ranks running: /r", "1 container running: db (pg)"), "c": {}}
    assert python_env.busy_hosts(hosts, ["a"]) == []
    assert python_env.busy_hosts(hosts, ["a", "b", "c"]) == [
        "b (ranks running: /r, 1 container running: db (pg))",
        "c (its state is unknown)",
    ]


def test_hosts_outside_the_limit_that_share_the_environment_count_as_busy() -> None:
    """They were not read, and their ranks may import from it."""
    shared = {"python_env_builder": "a"}
    hosts = {"a": {**state(), **shared}, "b": dict(shared), "c": {"python_env_builder": "c"}, "d": {}}
    assert python_env.busy_hosts(hosts, ["a"], "a", "a") == ["b (outside --limit, its state is unknown)"]
    assert python_env.busy_hosts(hosts, ["a"], "a", "") == []
    assert python_env.busy_hosts(hosts, ["a"], "", "a") == []
