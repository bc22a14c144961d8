"""How long GPUs were busy, from rows of samples: each once, of these GPUs alone, whatever else the file has."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ddp_play.guard import daemon, gpu_time
from ddp_play.guard.gpu_time import GpuTime
from ddp_play.guard.run_directory import HostRun, write_json
from ddp_play.guard.sample_file import SampleFile, rows_of
from tests.unit.guard.test_nvml import built
from tests.waiting import wait_until

SOURCES = str(Path(daemon.__file__).parents[1])


def row(end: float, seconds: float, *percents: Any) -> dict[str, Any]:
    return {"up": end, "s": seconds, "gpus": {str(at): {"utilization": one} for at, one in enumerate(percents)}}


def file_of(tmp_path: Path, *rows: dict[str, Any]) -> SampleFile:
    found = SampleFile(tmp_path / "samples.jsonl", {"cores": 8})
    found.start()
    for each in rows:
        found.append(each)
    return found


def test_a_row_that_can_be_read_and_not_written_again_ends_nothing(tmp_path: Path) -> None:
    """Its depth is one below that at which Python gives up: which one that is depends on the callers."""
    path = tmp_path / "samples.jsonl"
    for depth in range(850, 1000):
        good = json.dumps(row(102, 2, 100))
        deep = f'{{"up": 103, "s": 1, "x": {"[" * depth}{"]" * depth}}}'
        path.write_text(f"{{}}\n{deep}\n{good}\n")
        assert GpuTime(path, [0], 100.0).read() == {"gpu_s": 2.0, "gpu_busy_s": 2.0}


@pytest.mark.parametrize(
    ("gpus", "rows", "found"),
    [
        ([0, 1], [], {}),
        ([], [row(102, 2, 100)], {}),
        ([0], [row(102, 2, 100)], {"gpu_s": 2.0, "gpu_busy_s": 2.0}),
        ([0], [row(102, 2, 0)], {"gpu_s": 2.0, "gpu_busy_s": 0.0}),
        ([0, 1], [row(102, 2, 100, 50), row(112, 10, 0, 10)], {"gpu_s": 24.0, "gpu_busy_s": 4.0}),
        ([1], [row(102, 2, 100, 50)], {"gpu_s": 2.0, "gpu_busy_s": 1.0}),
        ([0, 1], [row(102, 2, 100)], {"gpu_s": 2.0, "gpu_busy_s": 2.0}),  # the other tells nothing
        ([0], [row(99, 2, 100)], {}),  # before the ranks
        ([0], [{"up": 102, "s": 2}, row(104, 2, 40)], {"gpu_s": 2.0, "gpu_busy_s": 0.8}),
    ],
    ids=["none", "no GPUs", "busy", "idle", "two", "of another run", "divided", "early", "no answer"],
)
def test_rows_of_a_file(tmp_path: Path, gpus: list[int], rows: list[dict[str, Any]], found: dict[str, float]) -> None:
    file_of(tmp_path, *rows)
    assert GpuTime(tmp_path / "samples.jsonl", gpus, 100.0).read() == found


def test_each_row_counts_once(tmp_path: Path) -> None:
    file, time = file_of(tmp_path, row(102, 2, 100)), GpuTime(tmp_path / "samples.jsonl", [0], 100.0)
    assert time.read() == time.read() == {"gpu_s": 2.0, "gpu_busy_s": 2.0}
    file.append(row(104, 2, 50))
    assert time.read() == {"gpu_s": 4.0, "gpu_busy_s": 3.0}
    time.clear()
    file.rewrite(104.0)
    assert time.read() == {}
    file.append(row(106, 2, 50))
    assert time.read() == {"gpu_s": 2.0, "gpu_busy_s": 1.0}


@pytest.mark.parametrize(
    "odd",
    [
        row(102, 2, "many"), row(102, 2, None), row(102, 2, -1), row(102, 2, 1e9), row(102, 2, float("nan")),
        row(102, 10**400, 50), row(102, -5, 50), row(102, float("inf"), 50), {"up": 102, "s": 2, "gpus": [1]},
        {"up": 102, "s": 2, "gpus": {"0": 5}}, {"up": 102, "s": 2, "gpus": "x"},
    ],
    ids=lambda odd: json.dumps(odd)[:40],
)  # fmt: skip
def test_odd_rows_count_for_nothing(tmp_path: Path, odd: dict[str, Any]) -> None:
    file_of(tmp_path, odd, row(104, 2, 50))
    assert GpuTime(tmp_path / "samples.jsonl", [0], 100.0).read() == {"gpu_s": 2.0, "gpu_busy_s": 1.0}


def test_a_file_that_grows_for_ever_holds_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    time = GpuTime(tmp_path / "none", [0], 100.0)
    monkeypatch.setattr(gpu_time, "MAX_PIECES", 3)
    pieces: list[int] = []

    def take_rows() -> list[dict[str, Any]]:
        pieces.append(1)
        return []

    monkeypatch.setattr(time._samples, "take_rows", take_rows)
    monkeypatch.setattr(time._samples, "is_behind", True)
    assert time.read() == {}
    assert len(pieces) == 3


def test_what_the_sampler_writes_of_nvml(tmp_path: Path) -> None:
    """The first GPU of the library is 97 % busy, the second is divided."""
    library, place = built(tmp_path, "-DINIT=0"), HostRun(tmp_path)
    write_json(place.spec, {"limits": {"samples_s": 0.5}})
    code = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\nfrom guard import device_readings as d, sampler\n"
        f"sampler.has_devices = lambda: True\nopened = d.Devices\nd.Devices = lambda: opened('', {library!r})\n"
        f"sampler.main({str(tmp_path)!r})\n"
    )
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", code], stdin=subprocess.PIPE) as child:

        def sampled() -> int:
            rows = rows_of(place.samples.read_bytes()) if place.samples.exists() else []
            return len([each for each in rows if "gpus" in each])

        wait_until(lambda: sampled() >= 2, timeout_s=60, what="two rows")
        found = GpuTime(place.samples, [0, 1], 0.0).read()
        child.kill()
    assert found["gpu_s"] >= 1.0
    assert found["gpu_busy_s"] / found["gpu_s"] == pytest.approx(0.97, abs=0.001)
