"""Text file that node_exporter reads, parsed by Prometheus' own library."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.bundle.prometheus_export import write_prometheus
from ddp_play.bundle.run_lookup import load
from ddp_play.errors import UsageError
from tests.unit.bundle.test_metric_values import SAMPLE, write_metrics, write_samples


def numbers(path: Path) -> dict[tuple[str, str], float]:
    """(name, labels without the run) -> value."""
    found = {}
    for family in text_string_to_metric_families(path.read_text()):
        for sample in family.samples:
            assert sample.labels.pop("run") == "night"
            found[sample.name.removeprefix("ddp_play_"), ",".join(sample.labels.values())] = sample.value
    return found


def test_the_newest_numbers(tmp_path: Path) -> None:
    paths, path = RunPaths(tmp_path / "night"), tmp_path / "train.prom"
    write_json(paths.run, {"id": "night", "status": "failed", "ended": 9.0})
    write_metrics(paths, 0, {"time": 10.0, "loss": 0.5}, {"time": 11.0, "loss": 0.25}, {"time": 12.0, "lr": 0.5})
    write_samples(paths, 'h"1', {**SAMPLE, "t": 3.0, "cpu": 9.0}, SAMPLE)
    write_prometheus(load(paths), path)
    found = numbers(path)
    assert {labels: value for (name, labels), value in found.items() if name == "run_status" and value} == {
        "failed": 1.0
    }
    assert {key: value for key, value in found.items() if key[0] != "run_status"} == {
        ("host_sample_time_seconds", 'h"1'): 5.0,
        ("host_cpu_cores", 'h"1'): 1.5,
        ("host_memory_bytes", 'h"1'): 7.0,
        ("host_bytes_per_second", 'eth0,received,h"1,nics'): 1.0,
        ("host_bytes_per_second", 'eth0,sent,h"1,nics'): 2.0,
        ("host_bytes_per_second", ',read,h"1,disk'): 3.0,
        ("host_bytes_per_second", ',written,h"1,disk'): 4.0,
        ("rank_cpu_cores", 'h"1,0'): 0.5,
        ("gpu_power_watts", '0,h"1'): 300.5,
        ("rank_metric", "loss,0"): 0.25,
        ("rank_metric", "lr,0"): 0.5,
    }


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match="prometheus-client") as raised:
        write_prometheus(load(RunPaths(tmp_path)), tmp_path / "train.prom")
    assert raised.value.hint == "pip install 'ddp-play[prometheus]' in the environment of ddp-play"
