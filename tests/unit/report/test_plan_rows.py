"""The plan in short, and planned against carried traffic."""

from __future__ import annotations

import pytest

from ddp_play.report.plan_rows import interfaces, plan_summary, traffic
from tests.unit.build import hosts, plan

PLAN = plan(*hosts(2)).to_json()
CARRIED = {
    "eth0": {"rx": 5_000_000_000, "tx": 5_000_000_000},
    "lo": {"rx": 10, "tx": 10},
    "eth1": {"rx": 9, "tx": 10**9},
}


def test_settings_hosts_and_command() -> None:
    found = plan_summary(PLAN)
    assert found["settings"]["world_size"] == 2
    assert [(row["host"], row["interface"], row["ranks"]) for row in found["hosts"]] == [
        ("h1", "eth0", [0, 0]),
        ("h2", "eth0", [1, 1]),
    ]
    assert "train.py" in found["command"]
    assert interfaces(PLAN) == {"h1": "eth0", "h2": "eth0"}


@pytest.mark.parametrize("document", [{}, {"kinds": []}, {"hosts": 7}, {**PLAN, "kinds": [{}]}])
def test_a_plan_that_cannot_be_read_is_empty(document: dict[str, object]) -> None:
    assert plan_summary(document) == {}
    assert interfaces(document) == {}


def test_the_planned_interface_comes_first_and_small_ones_are_marked() -> None:
    document = {"network": {"fabric": "ethernet", "hosts": {"h1": {"planned": "eth0", "carried": CARRIED}}}}
    found = traffic(document, PLAN)
    assert [(row["interface"], row["is_planned"], row["is_small"], row["speed_mbps"]) for row in found["rows"]] == [
        ("eth0", True, False, 1000), ("eth1", False, False, None), ("lo", False, True, None),
    ]  # fmt: skip
    assert found["lines"][0].startswith("network: eth0 carried 10 GB (h1)")


def test_a_planned_interface_that_carried_nothing_is_shown() -> None:
    document = {"network": {"hosts": {"h1": {"planned": "ib0", "carried": CARRIED}}}, "nccl": {"words": "NET/IB"}}
    found = traffic(document, {})
    assert found["rows"][0] == {
        "host": "h1", "interface": "ib0", "is_planned": True, "is_small": False, "rx": 0, "tx": 0, "speed_mbps": None,
    }  # fmt: skip
    assert found["transport"] == "NET/IB"


def test_no_counters_are_no_rows() -> None:
    assert traffic({}, {}) == {"fabric": "", "rows": [], "lines": [], "transport": ""}
