"""Load of hosts and ranks from a row of samples."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.host_load import Load, gpu_utilization, host_load, mean, rank_load, total

ROW = {
    "cpu": 12.5,
    "memory": 10,
    "nics": {"lo": [9e9, 9e9], "eth0": [1.0, 2.0], "ib0": [10.0, 20.0]},
    "rdma": {"mlx5_0/1": [100.0, 200.0]},
    "gpus": {"0": {"utilization": 90}, "1": {"utilization": 50}, "2": {"power": 300.0}},
    "ranks": {"4": {"cpu": 1.5, "memory": 7}},
}


def test_a_host() -> None:
    load = host_load({"cores": 64, "memory_total": 100}, ROW, interface="ib0")
    assert load == Load(12.5, 64.0, 10.0, 100.0, 70.0, 110.0, 220.0)


def test_all_interfaces_but_loopback_where_the_planned_one_is_unknown() -> None:
    load = host_load({}, ROW, interface="eth7")
    assert (load.received, load.sent) == (111.0, 222.0)


def test_a_rank() -> None:
    assert rank_load(ROW, 4, ["1"]) == Load(cpu=1.5, memory=7.0, gpu=50.0)
    assert rank_load(ROW, 5, []) == Load()


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"cpu": None, "memory": "much", "nics": [], "gpus": {"0": 3}, "ranks": {"4": []}},
        {"cpu": True, "nics": {"eth0": 3, "ib0": [1]}, "rdma": "x", "gpus": "x", "ranks": "x"},
    ],
)
def test_what_a_host_could_not_read_or_made_up_is_unknown(row: dict[str, Any]) -> None:
    assert host_load({}, row) == Load()
    assert rank_load(row, 4, ["0"]) == Load()


def test_sums_and_means_of_what_is_known() -> None:
    assert (mean([1.0, None, 3.0]), mean([None]), total([1.0, None]), total([])) == (2.0, None, 1.0, None)
    assert gpu_utilization(ROW, ["0", "2", "9"]) == 90.0
