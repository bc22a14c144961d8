"""Metrics are written in whole lines, results as whole files."""

import json
import threading
from pathlib import Path

import pytest

from trainer.output_files import MetricsLog, write_json


def test_metric_lines_of_several_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "metrics.jsonl"

    def write(rank: int) -> None:
        with MetricsLog(path, rank=rank) as log:
            for step in range(200):
                log.write(step=step, loss=0.1)

    writers = [threading.Thread(target=write, args=(rank,)) for rank in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted((line["rank"], line["step"]) for line in lines) == [(r, s) for r in range(4) for s in range(200)]


def test_metrics_without_a_path_do_nothing(tmp_path: Path) -> None:
    with MetricsLog(None, rank=0) as log:
        log.write(step=1)
    assert list(tmp_path.iterdir()) == []


def test_a_result_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    write_json(path, {"accuracy": 0.5})
    with pytest.raises(TypeError):
        write_json(path, {"accuracy": object()})
    assert json.loads(path.read_text()) == {"accuracy": 0.5}
