"""Samples of hosts as panels."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.run_lookup import load
from ddp_play.report import sample_panels as module
from ddp_play.report.missing_parts import missing_parts
from ddp_play.report.report_data import report_document
from ddp_play.report.run_attempts import read_story
from ddp_play.report.sample_panels import panel_values, sample_panels

from .bundles import GB, ended_bundle, sample_row, write_rows, write_samples

INTERFACES = {"h1": "eth0", "h2": "eth0"}


@pytest.mark.parametrize(
    ("row", "values"),
    [
        ({}, {}),
        ({"cpu": 1.5, "memory": 7}, {"cpu": 1.5, "memory": 7.0}),
        ({"nics": {"eth0": [1, 2], "lo": [9, 9]}}, {"received": 1.0, "sent": 2.0}),
        ({"nics": {"lo": [9, 9]}}, {}),
        ({"rdma": {"mlx5_0/1": [1, 2], "mlx5_1/1": [3, 4]}}, {"rdma_received": 4.0, "rdma_sent": 6.0}),
        ({"disk": [1, 2]}, {"disk_read": 1.0, "disk_written": 2.0}),
        (
            {
                "gpus": {
                    "0": {"utilization": 90, "power": 1, "temperature": 50},
                    "1": {"utilization": 70, "temperature": 60},
                }
            },
            {"utilization": 80.0, "power": 1.0, "temperature": 60.0},
        ),
        ({"cpu": "much", "disk": 7, "nics": [], "gpus": {"0": None}, "rdma": {"x": []}}, {}),
    ],
)
def test_values_of_a_row(row: dict[str, Any], values: dict[str, float]) -> None:
    assert panel_values(row, "eth0") == values


def test_hosts_and_ranks_have_panels() -> None:
    paths = ended_bundle(ranks_per_host=2)
    write_samples(paths, length=60, every_s=2, num_gpus=2)
    found = sample_panels(read_story(load(paths)), INTERFACES)
    titles = [one["title"] for one in found["panels"]]
    assert titles[0] == "GPU utilization, mean of a host"
    assert titles[-2:] == ["CPU of a rank", "Memory of a rank"]
    memory = next(one for one in found["panels"] if one["title"] == "GPU memory of a host")
    assert [(row["name"], row["mean"]) for row in memory["rows"]] == [("h1", 120 * GB), ("h2", 120 * GB)]
    assert [curve["name"] for curve in found["panels"][-1]["curves"]] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    gpus = {"0": {"name": "NVIDIA H100"}, "1": {"name": "NVIDIA H100"}}
    assert found["hosts"][0] == {"host": "h1", "cores": 64, "memory_total": 512 * GB, "gpus": gpus}
    assert (found["without"], found["is_whole"]) == ([], True)


def test_of_very_many_samples_rows_at_even_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BUDGET", 40_000)
    paths = ended_bundle(length=6000.0)
    write_samples(paths, length=6000, every_s=4)
    story = read_story(load(paths))
    found = sample_panels(story, INTERFACES)
    assert not found["is_whole"]
    times = found["panels"][0]["curves"][0]["times"]
    assert times[0] < 100
    assert times[-1] > 5900
    assert 40 < len(times) < 1500
    lines = missing_parts(story, report_document(load(paths)))
    assert any(line.startswith("some of the samples") for line in lines)


def test_a_host_without_samples_is_named() -> None:
    paths = ended_bundle()
    write_rows(paths.samples("h1"), [sample_row(10, 2, 0, [0]), {"t": "x", "s": 0, "attempt": 1}])
    found = sample_panels(read_story(load(paths)), INTERFACES)
    assert found["without"] == ["h2"]
    assert all(len(one["curves"]) == 1 for one in found["panels"])


def test_a_row_without_a_length_and_hostile_ranks_break_nothing() -> None:
    paths = ended_bundle()
    row = sample_row(10, 0, 0, [])
    write_rows(
        paths.samples("h1"), [{**row, "ranks": {"<b>": {"cpu": 1}}}, {**row, "ranks": [1]}, {**row, "ranks": {"0": 7}}]
    )
    titles = [one["title"] for one in sample_panels(read_story(load(paths)), INTERFACES)["panels"]]
    assert "CPU of a host" in titles
    assert "CPU of a rank" not in titles
