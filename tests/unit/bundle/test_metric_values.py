"""Numbers of a bundle for other programs."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ddp_play.bundle.metric_values import Values, host_values, rank_values, ranks_with_metrics
from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.samples import file_text

SAMPLE: dict[str, Any] = {
    "t": 5.0,
    "s": 2.0,
    "attempt": 1,
    "up": 9.0,
    "cpu": 1.5,
    "memory": 7,
    "nics": {"eth0": [1, 2]},
    "disk": [3, 4],
    "ranks": {"0": {"cpu": 0.5}},
    "gpus": {"0": {"power": 300.5}},
}


def write_metrics(paths: RunPaths, rank: int, *rows: Any) -> None:
    paths.metrics(rank).parent.mkdir(parents=True, exist_ok=True)
    paths.metrics(rank).write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_samples(paths: RunPaths, host: str, *rows: dict[str, Any]) -> None:
    paths.samples(host).parent.mkdir(parents=True, exist_ok=True)
    paths.samples(host).write_bytes(file_text({"host": host, "format": 1}, rows))


def test_ranks_of_all_attempts_in_order(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    for attempt, step in ((10, 3), (2, 2), (1, 1)):
        write_metrics(paths.attempt(attempt), 1, {"time": 1.0, "step": step, "loss": 0.5, "rank": 1, "name": "x"})
    write_metrics(paths, 1, {"time": 9.0, "loss": 0.1, "ok": True}, {"loss": 3}, "nonsense")
    assert ranks_with_metrics(paths) == [1]
    assert list(rank_values(paths, 1)) == [
        *[Values(1.0, step, {"loss": 0.5}) for step in (1, 2, 3)],
        Values(9.0, None, {"loss": 0.1}),
    ]
    assert list(rank_values(paths, 0)) == []


def test_a_name_that_no_file_can_hold_ends_no_export(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write_metrics(paths, 0, {"time": 1.0, "a\ud800": 1})
    assert list(rank_values(paths, 0)) == [Values(1.0, None, {"a?": 1.0})]


def test_samples_have_flat_names(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write_samples(paths, "h1", SAMPLE)
    assert paths.sampled_hosts == ["h1"]
    (found,) = host_values(paths, "h1")
    assert found == Values(
        5.0,
        None,
        {
            "cpu": 1.5,
            "memory": 7.0,
            "nics/eth0/received": 1.0,
            "nics/eth0/sent": 2.0,
            "disk/read": 3.0,
            "disk/written": 4.0,
            "ranks/0/cpu": 0.5,
            "gpus/0/power": 300.5,
        },
    )


@pytest.mark.parametrize("text", ["", "[" * 100_000, '{"time": true, "loss": 1}', '{"time": "now", "loss": 1}'])
def test_lines_that_are_no_metrics(tmp_path: Path, text: str) -> None:
    paths = RunPaths(tmp_path)
    write_metrics(paths, 0)
    paths.metrics(0).write_text(text + "\n")
    assert list(rank_values(paths, 0)) == []


def test_no_number_is_too_large(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    write_metrics(paths, 0, {"time": 10**400, "loss": 1.0}, {"time": 1.0, "step": 10**30, "loss": -(10**400)})
    assert list(rank_values(paths, 0)) == [Values(1.0, None, {"loss": -math.inf})]


def test_fields_of_another_form_are_left_out(tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    odd = {"cpu": "x", "nics": {"eth0": 7, "eth1": [1]}, "disk": {}, "ranks": {"0": [], "1": {"cpu": None}}, "gpus": 3}
    write_samples(paths, "h1", {**SAMPLE, **odd})
    assert [row.numbers for row in host_values(paths, "h1")] == [{"memory": 7.0}]
