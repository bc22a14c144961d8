"""Metrics of ranks as panels, also of those that ranks wrote without a time or wrongly."""

from __future__ import annotations

from typing import Any

from ddp_play.bundle.run_lookup import load
from ddp_play.report.metric_curves import MOST_PANELS, metric_panels
from ddp_play.report.run_attempts import read_story

from .bundles import CREATED, ended_bundle, write_rows


def panels(*rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    paths = ended_bundle()
    write_rows(paths.metrics(0), rows)
    return metric_panels(read_story(load(paths)).attempts, end=60.0, **more)


def test_numbers_become_curves_and_the_loss_comes_first() -> None:
    row = {
        "time": CREATED + 10,
        "rank": 0,
        "step": 1,
        "zeta": 1,
        "loss": 0.5,
        "samples_per_s": 7.0,
        "name": "x",
        "on": True,
    }
    found = panels(row)
    assert [one["title"] for one in found["panels"]] == ["loss", "samples_per_s", "zeta"]
    assert found["panels"][0]["curves"] == [{"name": "rank 0", "attempt": 1, "times": [10.0], "values": [0.5]}]
    assert found["panels"][1]["unit"] == "per second"
    assert (found["is_whole"], found["left_out"], found["rows_without_time"]) == (True, [], 0)


def test_rows_without_a_time_are_spread_over_the_run_of_the_ranks() -> None:
    found = panels({"loss": 3.0}, {"loss": 2.0}, {"loss": 1.0, "time": 1e300})
    assert found["rows_without_time"] == 3
    assert found["panels"][0]["curves"][0]["times"] == [2.0, 31.0, 60.0]


def test_what_ranks_write_wrongly_breaks_nothing() -> None:
    found = panels(
        {"time": CREATED + 5, "loss": float("nan"), "big": int("9" * 400), "x" * 500: 1},
        {"time": "soon", "loss": None, "": 1.0},
        {"time": CREATED + 6, "loss": 1.0},
    )
    rows = {one["title"]: one["all"] for one in found["panels"]}
    assert rows["loss"]["not_finite"] == 1
    assert rows["big"]["not_finite"] == 1
    assert not any("xxx" in title for title in rows)


def test_too_many_names_are_said() -> None:
    found = panels({"time": CREATED + 5, **{f"m{number:03}": 1.0 for number in range(300)}})
    assert len(found["panels"]) == MOST_PANELS
    assert len(found["left_out"]) == 200 - MOST_PANELS


def test_no_metrics_are_no_panels() -> None:
    assert panels()["panels"] == []
