"""GPU memory of the last attempt, with a stub of nvidia-smi and real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import attempt_preparation, gpu_memory
from ddp_play.guard.gpu_memory import Holder
from ddp_play.guard.refusal import Refused
from ddp_play.guard.run_directory import HostRun
from tests.unit.guard.test_attempt_directories import spec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RESTART = {"continues": True, "run_age_s": 3600.0, "slots": {"need": 1, "names": ["gpu-GPU-a", "gpu-GPU-b"]}}
# Lists a process while it exists, as nvidia-smi does until the driver has released its memory.
STUB = """#!/bin/sh
case "$*" in *--query-compute-apps=gpu_uuid,pid,used_memory,process_name*) ;; *) exit 6;; esac
{rows}
"""
ROW = 'kill -0 {pid} 2>/dev/null && echo "{gpu}, {pid}, 71000, python train.py, --fast"\n'


@pytest.fixture
def stub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that makes a program `nvidia-smi` with these lines."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(gpu_memory, "FREE_S", 0.3)
    monkeypatch.setattr(gpu_memory, "POLL_S", 0.02)

    def make(rows: str) -> None:
        path = tmp_path / "nvidia-smi"
        path.write_text(STUB.format(rows=rows + "\nexit 0"))
        path.chmod(0o755)

    return make


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the last attempt that has not ended."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield child
    child.kill()
    child.wait()


def test_what_nvidia_smi_prints() -> None:
    text = "GPU-a, 4711, 71000, python, or so\nGPU-b, 4712, [N/A], [Not Found]\nNo running processes found\n"
    assert gpu_memory.parse_holders(text) == [
        Holder("GPU-a", 4711, "71000", "python, or so"),
        Holder("GPU-b", 4712, "", "[Not Found]"),
    ]


def test_a_process_of_the_last_attempt_is_named_in_the_refusal(
    stub: Callable[[str], None], process: subprocess.Popen[bytes]
) -> None:
    stub(ROW.format(gpu="GPU-b", pid=process.pid))
    with pytest.raises(
        Refused, match=rf"not free 0 s .*: pid {process.pid} \(python train.py, --fast, 71000 MiB on"
    ) as no:
        gpu_memory.wait_until_free(RESTART)
    assert no.value.kind == "host_not_ready"
    assert f"-p {process.pid}" in no.value.hint


def test_the_restart_waits_until_the_memory_is_released(
    stub: Callable[[str], None], process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_memory, "FREE_S", 30.0)
    stub(ROW.format(gpu="GPU-a", pid=process.pid))
    ending = threading.Event()

    def end() -> None:
        ending.set()
        process.kill()
        process.wait()

    later = threading.Timer(0.3, end)
    later.start()
    gpu_memory.wait_until_free(RESTART)
    assert ending.is_set(), "it returned while the process was working"
    later.join()


@pytest.mark.parametrize(
    "change",
    [
        {"continues": False},
        {"slots": {"need": 1, "names": ["gpu-GPU-other"]}},
        {"slots": {"need": 1, "names": ["slot-0"]}},
        {"slots": None},
        {"run_age_s": 0.0},
    ],
    ids=["first attempt", "other GPU", "no GPU", "no slots", "process from before the run"],
)
def test_processes_that_do_not_delay_a_restart(
    stub: Callable[[str], None], process: subprocess.Popen[bytes], change: dict[str, Any]
) -> None:
    stub(ROW.format(gpu="GPU-a", pid=process.pid))
    while (gpu_memory.age_s(process.pid) or 0) < 0.1:
        pass
    gpu_memory.wait_until_free({**RESTART, **change})


def test_memory_of_a_process_that_has_ended_counts(stub: Callable[[str], None]) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    stub(f'echo "GPU-a, {gone.pid}, 100, [Not Found]"')
    with pytest.raises(Refused, match=rf"pid {gone.pid} \(\[Not Found\], 100 MiB on GPU-a\)"):
        gpu_memory.wait_until_free(RESTART)


def test_a_driver_that_does_not_answer_counts_as_busy(stub: Callable[[str], None]) -> None:
    stub("echo 'Unable to determine the device handle: GPU is lost'; exit 15")
    with pytest.raises(Refused, match=r"does not work after the last attempt: .*GPU is lost"):
        gpu_memory.wait_until_free(RESTART)


def test_prepare_refuses_before_it_makes_anything(
    stub: Callable[[str], None], process: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    stub(ROW.format(gpu="GPU-a", pid=process.pid))
    place = HostRun(tmp_path / "state" / "runs" / "r1" / "2.h1")
    with pytest.raises(Refused, match=f"pid {process.pid}"):
        attempt_preparation.prepare(place, spec(**RESTART), {}, {})
    assert not place.root.exists()
