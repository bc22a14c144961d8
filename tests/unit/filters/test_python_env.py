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
    member = {"group_names": ["python_env"]}
    shared = {"python_env_builder": "a", **member}
    storage = {"python_env_builder": "a", "group_names": ["nfs_server"]}
    hosts = {"a": {**state(), **shared}, "b": shared, "c": {"python_env_builder": "c", **member}, "nfs": storage}
    assert python_env.busy_hosts(hosts, ["a"], "a", "a") == ["b (outside --limit, its state is unknown)"]
    assert python_env.busy_hosts(hosts, ["a"], "a", "") == []
    assert python_env.busy_hosts(hosts, ["a"], "", "a") == []


def test_waiting_is_no_advice_where_only_hosts_outside_the_limit_count_as_busy() -> None:
    outside = f"b {python_env.OUTSIDE}"
    assert "without --limit, --serial and --canary" in python_env.next_step([outside])
    assert python_env.next_step([outside, "c (ranks running: /r)"]) == "Run it again when no host is busy"
