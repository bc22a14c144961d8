"""Network traffic of a run: the numbers in run.json and the lines of the summary."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.network_traffic import (
    Counters,
    bytes_text,
    carried,
    total,
    traffic_document,
    traffic_lines,
    traffic_warnings,
)
from tests.unit.build import hosts, plan


def moved(**total: int) -> Counters:
    """Half of it in each direction."""
    return {name: {"rx": count // 2, "tx": count - count // 2} for name, count in total.items()}


@pytest.mark.parametrize(
    ("before", "after", "between"),
    [
        ({}, {}, {}),
        (moved(eth0=10), moved(eth0=10), {}),
        (moved(eth0=10), moved(eth0=30), moved(eth0=20)),
        (moved(eth0=30), moved(eth0=10), moved(eth0=10)),  # rebooted in between
        ({}, moved(eth1=8), moved(eth1=8)),  # an interface that came up
        (moved(eth0=10, eth1=5), moved(eth0=10), {}),  # and one that went
    ],
)
def test_bytes_between_two_readings(before: Counters, after: Counters, between: Counters) -> None:
    assert carried(before, after) == between


def test_only_hosts_that_answered_at_both_ends() -> None:
    made = plan(*hosts(3))
    found = traffic_document(made, {"h1": {}, "h2": {}}, {"h1": moved(eth0=4), "h3": moved(eth0=4)})
    assert found == {"fabric": "ethernet", "hosts": {"h1": {"planned": "eth0", "carried": moved(eth0=4)}}}


def document(*rows: Counters, planned: str = "eth1", fabric: str = "ethernet") -> dict[str, Any]:
    """What run.json holds, of hosts h1, h2, ..."""
    return {
        "fabric": fabric,
        "hosts": {f"h{n}": {"planned": planned, "carried": row} for n, row in enumerate(rows, start=1)},
    }


def test_the_network_that_carried_it_is_named() -> None:
    lines = traffic_lines(document(moved(eth1=1_234_000_000, eth0=300_000), moved(eth1=1_240_000_000, lo=90_000_000)))
    assert lines == ["network: eth1 carried 1.2 GB (h1), 1.2 GB (h2); other interfaces: lo 45 MB (within the host)"]


def test_many_hosts_are_summed() -> None:
    (line,) = traffic_lines(document(*[moved(eth1=1_000_000_000)] * 32))
    assert line.endswith("1.0 GB (h3), 1.0 GB (h4), ..., 32 GB on all 32 hosts")


def test_names_of_their_own_get_lines_of_their_own() -> None:
    both = document(moved(eth1=5_000))
    both["hosts"]["h2"] = {"planned": "enp3s0", "carried": moved(enp3s0=5_000)}
    assert traffic_lines(both) == ["network: enp3s0 carried 5.0 kB (h2)", "network: eth1 carried 5.0 kB (h1)"]


def test_one_machine_used_no_network() -> None:
    (line,) = traffic_lines(document({"lo": {"rx": 7_000_000, "tx": 7_000_000}}, planned="lo", fabric="local"))
    assert line == "network: all ranks were on one machine: loopback carried 7.0 MB, no network was used"


def test_without_counters_there_are_no_lines() -> None:
    assert traffic_lines({}) == []
    assert traffic_lines(document()) == []


@pytest.mark.parametrize(
    ("row", "warns"),
    [
        (moved(eth1=900_000_000, eth0=20_000_000), False),
        (moved(eth1=1_000, eth0=900_000_000), True),
        (moved(eth1=1_000, eth0=9_000_000), False),  # a short run's management traffic
        (moved(eth1=1_000, lo=900_000_000), False),  # ranks of one host
        ({**moved(eth1=1_000, eth0=90_000_000), **moved(**{"mlx5_0:1": 90_000_000})}, False),  # RDMA did the work
    ],
)
def test_another_network_than_the_planned_one_is_a_warning(row: Counters, warns: bool) -> None:
    found = traffic_warnings(document(row))
    assert bool(found) == warns
    if warns:
        assert found[0].startswith("h1: eth0 carried 900 MB, the planned interface eth1 only 1.0 kB")


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (12_345, "12 kB"), (9_949_999, "9.9 MB"), (2e12, "2000 GB")]
)
def test_sizes(count: float, text: str) -> None:
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("row", "bytes_moved"), [({"rx": 3, "tx": 4}, 7), ({"tx": 4}, 4), ({"rx": None, "tx": 4}, 4), (None, 0), ({}, 0)]
)
def test_a_run_json_without_some_numbers_has_no_traffic_there(row: Any, bytes_moved: int) -> None:
    """Results, report and comparison of the run ended with the wish for a report to the authors."""
    assert total({"eth0": row}, "eth0") == bytes_moved
    assert total({}, "eth0") == 0
