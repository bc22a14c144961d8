"""Histories of metrics that stay small, and steps per second."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ddp_play.bundle.metric_series import MAX_METRICS, MAX_POINTS, Metrics, Series, is_number


def test_a_long_history_stays_small_and_keeps_its_shape() -> None:
    series = Series()
    for value in range(100_000):
        series.add(float(value))
    assert len(series.values) <= MAX_POINTS
    points = series.points(10)
    assert len(points) == 10
    assert points == sorted(points)
    assert sum(points) / 10 == pytest.approx(50_000, rel=0.05)
    assert series.last == 99_999.0


@pytest.mark.parametrize(
    ("num_values", "points"), [(0, []), (1, [0.0]), (3, [0.0, 1.0, 2.0]), (8, [0.5, 2.5, 4.5, 6.5])]
)
def test_at_most_so_many_points(num_values: int, points: list[float]) -> None:
    series = Series()
    for value in range(num_values):
        series.add(float(value))
    assert series.points(4) == points


def test_steps_per_second_of_the_last_rows() -> None:
    metrics = Metrics()
    metrics.add([{"time": 100.0, "step": 0}], received=None)
    assert metrics.steps_per_s() is None
    metrics.add([{"time": 110.0, "step": 50}, {"time": 120.0, "step": 60}], received=None)
    assert metrics.steps_per_s() == 3.0
    metrics.add([{"time": 149.0, "step": 350}], received=None)
    assert metrics.steps_per_s() == 10.0, "of the last 30 s"


def test_rows_without_a_time_have_that_of_their_reading() -> None:
    metrics = Metrics()
    metrics.add([{"step": 1}, {"step": 1000}], received=None)
    metrics.add([{"step": 1001}], received=10.0)
    metrics.add([{"step": 1002}, {"step": 1003}], received=12.0)
    assert metrics.steps_per_s() == 1.0


def test_a_step_that_goes_back_begins_anew() -> None:
    metrics = Metrics()
    metrics.add([{"time": 1.0, "step": 500}, {"time": 2.0, "step": 0}, {"time": 3.0, "step": 7}], received=None)
    assert metrics.steps_per_s() == 7.0


def test_which_metrics_are_curves() -> None:
    metrics = Metrics()
    metrics.add(
        [{"step": 1, "epoch": 1, "lr": 0.1, "loss": 2.0, "note": "text", "ok": True, "nan": math.nan}], received=1.0
    )
    assert metrics.curves() == ["loss", "lr", "nan"]


def test_a_rank_cannot_fill_the_memory_with_names() -> None:
    metrics = Metrics()
    metrics.add([{f"name-{number}": 1.0 for number in range(10_000)}], received=1.0)
    assert len(metrics.series) == MAX_METRICS


@pytest.mark.parametrize("value", ["1", None, True, math.inf, math.nan, 10**400, [1]])
def test_what_is_no_number(value: Any) -> None:
    assert not is_number(value)
    assert is_number(1)
    assert is_number(-0.5)


def test_a_value_that_is_not_finite_is_the_newest_and_no_point_of_the_curve() -> None:
    metrics = Metrics()
    metrics.add([{"loss": 2.0}, {"loss": 1.0}, {"loss": math.nan}], received=None)
    assert math.isnan(metrics.series["loss"].last)
    assert metrics.series["loss"].points(4) == [2.0, 1.0]
    metrics.add([{"loss": 10**400}], received=None)
    assert metrics.series["loss"].last == math.inf
    metrics.add([{"loss": 3.0}], received=None)
    assert metrics.series["loss"].points(4) == [2.0, 1.0, 3.0]
