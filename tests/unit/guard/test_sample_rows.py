"""A row of samples from two readings of counters."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.guard.sample_rows import row_between

BEFORE: dict[str, Any] = {
    "up": 100.0,
    "cpu": 50.0,
    "memory": 1000,
    "nics": {"eth0": (1000, 5000)},
    "rdma": {"mlx5_0/1": (0, 0)},
    "disk": (0, 100),
    "ranks": {"0": (4.0, 70)},
}
AFTER: dict[str, Any] = {
    "up": 102.0,
    "cpu": 53.0,
    "memory": 3000,
    "nics": {"eth0": (3000, 5000), "eth1": (7, 7)},
    "rdma": {"mlx5_0/1": (8, 2)},
    "disk": (50, 100),
    "ranks": {"0": (5.0, 80), "1": (1.0, 90)},
    "gpus": {"0": {"utilization": 97}},
}


def test_rates_and_what_is_as_it_is() -> None:
    assert row_between(BEFORE, AFTER) == {
        "up": 102.0,
        "s": 2.0,
        "cpu": 1.5,
        "memory": 3000,
        "nics": {"eth0": [1000, 0]},
        "rdma": {"mlx5_0/1": [4, 1]},
        "disk": [25, 0],
        "ranks": {"0": {"memory": 80, "cpu": 0.5}, "1": {"memory": 90}},
        "gpus": {"0": {"utilization": 97}},
    }


@pytest.mark.parametrize(
    ("change", "gone"),
    [
        ({"cpu": 1.0}, "cpu"),
        ({"nics": {"eth0": (3000, 4999)}}, "nics"),
        ({"disk": None}, "disk"),
        ({"rdma": {}}, "rdma"),
        ({"ranks": {}}, "ranks"),
        ({"gpus": {}}, "gpus"),
    ],
)
def test_what_is_not_known_or_went_back_is_left_out(change: dict[str, Any], gone: str) -> None:
    row = row_between(BEFORE, {**AFTER, **change})
    assert row is not None
    assert gone not in row
    assert len(row) == 8


def test_an_interval_that_is_too_short_is_no_row() -> None:
    assert row_between(BEFORE, {**AFTER, "up": 100.1}) is None
