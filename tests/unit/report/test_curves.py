"""Curves of many values: extremes stay, and of many members a band."""

from __future__ import annotations

import json
import math

import pytest

from ddp_play.report.curves import MOST_CURVES, Member, MemberSeries, decimated, panel
from ddp_play.report.svg_charts import panel_svg


def series(*values: float, start: float = 0.0, step: float = 1.0) -> MemberSeries:
    found = MemberSeries()
    for number, value in enumerate(values):
        found.add(start + number * step, value)
    return found


def test_few_points_stay_as_they_are() -> None:
    assert decimated([0.0, 1.0], [5.0, 6.0], 10.0) == [(0.0, 5.0), (1.0, 6.0)]
    assert decimated([], [], 0.0) == []


def test_a_peak_of_one_value_among_many_stays() -> None:
    values = [1.0] * 10_000
    values[4321], values[7777] = 99.0, -99.0
    found = decimated(list(map(float, range(10_000))), values, 10_000.0)
    assert len(found) < 1000
    assert (4321.0, 99.0) in found
    assert (7777.0, -99.0) in found
    assert [time for time, _ in found] == sorted(time for time, _ in found)


def test_times_outside_of_the_run_are_in_its_first_or_last_column() -> None:
    times = [-50.0, *map(float, range(1000)), 1e300]
    assert decimated(times, [1.0] * len(times), 1000.0)


def test_figures_are_those_of_all_values_and_weigh_by_time() -> None:
    row = MemberSeries()
    row.add(0, 10.0, 9.0)
    row.add(1, 20.0, 1.0)
    row.add(2, math.nan)
    row.add(3, math.inf)
    found = panel("loss", "", {("rank 0", 1): row}, 3.0)
    assert found["rows"] == [
        {"name": "rank 0", "attempt": 1, "first": 10.0, "last": 20.0, "low": 10.0, "high": 20.0, "mean": 11.0,
         "not_finite": 2}
    ]  # fmt: skip
    assert found["all"] == {"low": 10.0, "high": 20.0, "mean": 11.0, "not_finite": 2}


def test_a_member_without_finite_values_has_no_curve_but_is_counted() -> None:
    found = panel("loss", "", {("rank 0", 1): series(math.nan)}, 3.0)
    assert (found["curves"], found["rows"]) == ([], [])
    assert found["all"] == {"low": None, "high": None, "mean": None, "not_finite": 1}


@pytest.mark.parametrize("values", [(1.0, 1e20), (1e25, 1e30), (1e308, 1e308), (-1.7e308, 1.7e308), (5e-324, 0.0)])
@pytest.mark.parametrize("count", [1, 2 * MOST_CURVES])
def test_numbers_of_a_run_that_diverged_can_be_drawn(values: tuple[float, ...], count: int) -> None:
    """One of them must not cost the run its report."""
    rows: dict[Member, MemberSeries] = {(f"rank {rank}", 1): series(*values) for rank in range(count)}
    found = panel("loss", "", rows, 2.0)
    json.dumps(found, allow_nan=False)
    assert panel_svg(found, length=2.0, number=0).startswith("<svg")


def test_values_beyond_what_can_be_summed_count_as_infinite() -> None:
    (row,) = panel("loss", "", {("rank 0", 1): series(1.0, 1e308, 3.0)}, 3.0)["rows"]
    assert (row["high"], row["not_finite"]) == (3.0, 1)


def many(count: int) -> dict[Member, MemberSeries]:
    return {(f"rank {rank}", 1): series(*[100.0 - (50 if rank == 33 else 0)] * 20) for rank in range(count)}


def test_each_of_few_members_has_a_curve() -> None:
    found = panel("loss", "", many(MOST_CURVES), 20.0)
    assert len(found["curves"]) == MOST_CURVES
    assert found["bands"] == []


def test_many_members_are_a_band_with_curves_of_those_that_matter() -> None:
    found = panel("loss", "", many(64), 20.0, first=["rank 7"])
    names = {curve["name"] for curve in found["curves"]}
    assert {"rank 7", "rank 33"} <= names
    assert len(names) == 4
    (band,) = found["bands"]
    assert (min(band["low"]), max(band["high"]), set(band["middle"])) == (50.0, 100.0, {100.0})
    assert found["num_members"] == 64


@pytest.mark.parametrize(
    ("more", "is_once"),
    [
        ({}, True),
        ({("rank 0", 2): series(5.0)}, True),
        ({("rank 9", 1): series(1.0, 1.0)}, False),  # which has no curve of its own
        ({("rank 9", 1): series(1.0, math.nan)}, False),
        ({("rank 9", 1): series(math.nan)}, False),
    ],
    ids=["one each", "another attempt", "two of one rank", "NaN later", "NaN alone"],
)
def test_one_value_of_each_member(more: dict[Member, MemberSeries], is_once: bool) -> None:
    few: dict[Member, MemberSeries] = {("rank 0", 1): series(1.0)}
    others: dict[Member, MemberSeries] = {(f"rank {rank}", 1): series(float(rank)) for rank in range(20)}
    assert panel("accuracy", "", {**few, **more}, 2.0)["is_once"] is is_once
    assert panel("accuracy", "", {**others, **more}, 2.0)["is_once"] is is_once


def test_each_attempt_has_a_band_of_its_own() -> None:
    rows = {(f"rank {rank}", attempt): series(1.0, start=10.0 * attempt) for rank in range(20) for attempt in (1, 2)}
    assert [band["attempt"] for band in panel("loss", "", rows, 30.0)["bands"]] == [1, 2]
