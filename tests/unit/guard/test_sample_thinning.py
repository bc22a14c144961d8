"""Thinning of samples: what is merged, what stays, and that means and integrals stay right."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from ddp_play.guard.sample_thinning import HOST_END, thinned

NOW = 1_000_000.0
WEEK_S = 7 * 86400


def row(end: float, seconds: float = 2.0, *, attempt: int = 1, **fields: Any) -> dict[str, Any]:
    """A row that ends `end` seconds before NOW."""
    return {"t": NOW - end, "s": seconds, "attempt": attempt, **fields}


def test_nothing_to_thin() -> None:
    assert thinned([], NOW) == []


def test_recent_rows_stay() -> None:
    rows = [row(age, cpu=1.0) for age in range(800, 0, -2)]
    assert thinned(rows, NOW) == rows


def test_old_rows_become_one_with_weighted_means() -> None:
    rows = [
        row(1008, 2.0, cpu=1.0, nics={"eth0": [100, 0]}, memory=5_000_000),
        row(1002, 6.0, cpu=3.0, nics={"eth0": [500, 8]}, memory=9_000_000),
    ]
    (merged,) = thinned(rows, NOW)
    assert merged == {
        "t": NOW - 1002,
        "s": 8.0,
        "attempt": 1,
        "cpu": 2.5,
        "nics": {"eth0": [400, 6]},
        "memory": 8_000_000,
    }


def test_what_only_some_rows_have_is_the_mean_of_those() -> None:
    rows = [row(1006, ranks={"0": {"cpu": 1.0}}), row(1004, ranks={"0": {"cpu": 2.0}, "1": {"cpu": 4.0}}), row(1002)]
    (merged,) = thinned(rows, NOW)
    assert merged["ranks"] == {"0": {"cpu": 1.5}, "1": {"cpu": 4.0}}


@pytest.mark.parametrize(
    "rows",
    [
        [row(1008), row(1006, attempt=2)],
        [row(1008), row(1002)],  # nobody sampled in between
        [row(1012, 10.0), row(1002, 10.0)],  # as long as the level asks
        [row(1011), row(1009)],  # on both sides of a limit of intervals
    ],
    ids=["attempts", "gap", "level", "limit"],
)
def test_rows_that_stay_apart(rows: list[dict[str, Any]]) -> None:
    assert thinned(rows, NOW) == rows


def test_rows_out_of_order_are_sorted() -> None:
    assert [each["t"] for each in thinned([row(2), row(6), row(4)], NOW)] == [NOW - 6, NOW - 4, NOW - 2]


def test_the_clock_of_the_host() -> None:
    rows = [{HOST_END: 102.0 + 2 * number, "s": 2.0, "cpu": float(number)} for number in range(5)]
    (merged,) = thinned(rows, 2000.0, HOST_END)
    assert merged == {HOST_END: 110.0, "s": 10.0, "cpu": 2.0}


def test_values_of_changing_types_do_no_harm() -> None:
    rows = [row(1008, cpu={"a": 1}, disk=[1, 2, 3]), row(1006, cpu=2.0, disk=[3, 5]), row(1004, cpu=True, disk="none")]
    (merged,) = thinned(rows, NOW)
    assert (merged["cpu"], merged["disk"]) == (True, "none")


def test_a_week_fits_and_its_integral_stays() -> None:
    """Thinned again and again while it grows, as in a run; one row is about as large as on a host with 8 GPUs."""
    random.seed(7)
    rows: list[dict[str, Any]] = []
    total = 0.0
    for count in range(WEEK_S // 20):  # every 20 s, as fine as all but the first level
        value = random.uniform(0, 16)
        total += value * 20
        rows.append({"t": NOW + count * 20.0, "s": 20.0, "attempt": 1, "cpu": value, "memory": 64e9})
        if count % 2000 == 1999:
            rows = thinned(rows, rows[-1]["t"])
    assert len(rows) < 3000
    assert sum(each["cpu"] * each["s"] for each in rows) == pytest.approx(total, rel=1e-4)
    assert sum(each["s"] for each in rows) == pytest.approx(WEEK_S, abs=20)
    gpu = {"utilization": 97, "memory": 64_000_000_000, "power": 300.5, "temperature": 61, "sm_clock": 1980}
    rank = {"cpu": 0.912, "memory": 12_000_000_000}
    shape = {"nics": {f"eth{n}": [10**9, 10**9] for n in range(4)}, "gpus": dict.fromkeys("01234567", gpu)}
    size = len(json.dumps({**rows[-1], **shape, "ranks": dict.fromkeys("01234567", rank)}, separators=(",", ":")))
    assert size * 3000 < 5e6
