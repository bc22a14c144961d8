"""Event files that TensorBoard reads."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboardX.proto.event_pb2 import Event

from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.tensorboard_export import write_tensorboard
from ddp_play.errors import UsageError
from tests.unit.bundle.test_metric_values import SAMPLE, write_metrics, write_samples


def scalars(directory: Path) -> list[tuple[str, int, float, float]]:
    """(name, step, value, time) of each scalar in the event files of a directory."""
    found = []
    for path in sorted(directory.iterdir()):
        data = path.read_bytes()
        while data:
            (size,) = struct.unpack("<Q", data[:8])  # length, checksum, record, checksum
            event = Event.FromString(data[12 : 12 + size])
            found += [(value.tag, event.step, value.simple_value, event.wall_time) for value in event.summary.value]
            data = data[16 + size :]
    return found


def test_ranks_and_hosts_have_directories_of_their_own(tmp_path: Path) -> None:
    paths, logs = RunPaths(tmp_path / "night"), tmp_path / "logs"
    write_metrics(paths, 0, {"time": 10.0, "step": 7, "loss": 0.5}, {"time": 11.0, "loss": 0.25})
    write_samples(paths, "h1", {"t": 5.0, "s": 2.0, "attempt": 1, "cpu": 1.0}, {**SAMPLE, "t": 65.0})
    assert write_tensorboard(paths, logs) == 2 + 1 + 8
    assert scalars(logs / "rank-0") == [("loss", 7, 0.5, 10.0), ("loss", 1, 0.25, 11.0)]
    cpu = [row for row in scalars(logs / "host-h1") if row[0] == "cpu"]
    assert cpu == [("cpu", 0, 1.0, 5.0), ("cpu", 60, 1.5, 65.0)]
    with pytest.raises(UsageError, match="is not empty"):
        write_tensorboard(paths, logs)


def test_a_disk_that_takes_nothing_is_an_error_and_no_hang(tmp_path: Path) -> None:
    """The thread of SummaryWriter died, and the command waited for it for ever."""
    paths = RunPaths(tmp_path / "night")
    write_metrics(paths, 0, *({"time": float(step), "step": step, "loss": 0.5} for step in range(2000)))
    code = (
        "import pathlib, resource, sys\n"
        "from ddp_play.bundle.paths import RunPaths\n"
        "from ddp_play.bundle.tensorboard_export import write_tensorboard\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "write_tensorboard(RunPaths(pathlib.Path(sys.argv[1])), pathlib.Path(sys.argv[2]))\n"
    )
    words = [sys.executable, "-c", code, str(paths.root), str(tmp_path / "logs")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "OSError: [Errno 27] File too large"


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX.event_file_writer", None)
    with pytest.raises(UsageError, match="tensorboardX") as raised:
        write_tensorboard(RunPaths(tmp_path), tmp_path / "logs")
    assert raised.value.hint == "pip install 'ddp-play[tensorboard]' in the environment of ddp-play"
