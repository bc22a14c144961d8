"""Hints of a verdict, by exit code, signal and the end of the log."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.bundle.outcome import RankOutcome
from ddp_play.run.failure_hints import hint, is_teardown_abort
from tests.unit.guard.recorded_tails import TAILS

ABORT = "terminate called without an active exception\nFatal Python error: Aborted\n\n"


def row(code: int | None = 1, signum: int | None = None, **more: Any) -> RankOutcome:
    return RankOutcome(0, "h0", "exited", exit_code=code, signal=signum, ended=1.0, **more)


@pytest.mark.parametrize(
    ("how", "tail", "says"),
    [
        (row(134, 6), "teardown-abort", "destroy_process_group(), then time.sleep(0.2)"),
        (row(134, 6), "cuda-ecc-then-teardown", "destroy_process_group()"),
        (row(134, 6), "gloo-mismatch-abort", ""),
        (row(135, 7), "bus-error", "ddp_job_shm_size"),
        (row(1), "loader-bus-error", "ddp_job_shm_size"),
        (row(1), "nccl-shared-memory-full", "ddp_job_shm_size"),
        (row(1), "disk-full", "No space left on device: look at the disk"),
        (row(1), "cuda-out-of-memory", "memory of its GPU"),
        (row(1), "cuda-out-of-memory-1.0", "memory of its GPU"),
        (row(1), "cuda-ecc-then-watchdog", "nvidia-smi -q"),
        (row(1), "nccl-duplicate-gpu", "LOCAL_RANK"),
        (row(1), "nccl-duplicate-gpu-2.11", "LOCAL_RANK"),
        (row(1), "cuda-device-assert", "index or a label out of range"),
        (row(1), "cuda-illegal-access", "CUDA_LAUNCH_BLOCKING"),
        (row(1), "cuda-illegal-access-2.11", "CUDA_LAUNCH_BLOCKING"),
        (row(1), "store-port-taken", "ddp_job_port_range"),
        (row(1), "no-torch", "ddp_python"),
        (row(137, 9), "own-exception", "killed from outside"),
        (row(1), "urllib-refused", ""),
        (row(1), "requests-refused", ""),
        (row(139, 11), "segfault", ""),
    ],
)
def test_hints_for_real_tails(how: RankOutcome, tail: str, says: str) -> None:
    got = hint(how, TAILS[tail].text, ())
    assert says in got
    assert bool(says) is bool(got)


@pytest.mark.parametrize(
    ("how", "tail", "aborted"),
    [
        (row(134, 6), ABORT + "Thread 0x7f (most recent call first):\n  <no Python frame>\n", True),
        (row(134, None), ABORT, True),  # as an init of a container reports it
        (row(139, 11), ABORT + "Fatal Python error: Segmentation fault\n", True),  # Python's dump of the stacks
        (row(7), ABORT, False),
        (row(134, 6), "Fatal Python error: Aborted\n", False),
        # a C++ extension that aborts in the middle of a program
        (row(134, 6), ABORT + 'Thread 0x7f (most recent call first):\n  File "train.py", line 3 in step\n', False),
    ],
)
def test_which_aborts_are_of_torchs_teardown(how: RankOutcome, tail: str, aborted: bool) -> None:
    assert is_teardown_abort(how, tail) is aborted


@pytest.mark.parametrize(
    "text",
    [
        # a port of the script's own, and one that torch mentioned an hour ago
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nOSError: [Errno 98] Address already in use\n',
        "The server socket has failed to listen: EADDRINUSE\n" + "step\n" * 30,
    ],
)
def test_a_port_that_is_not_the_rendezvous(text: str) -> None:
    assert hint(row(), text, ()) == ""


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: Unable to JIT load the deepspeed_shm_comm op due to ninja not being installed.",
        "RuntimeError: Error building extension 'deepspeed_shm_comm'",
    ],
)
def test_deepspeed_cannot_compile(text: str) -> None:
    tail = f'Traceback (most recent call last):\n  File "train.py", line 11, in <module>\n    start()\n{text}\n'
    assert "DS_BUILD_SHM_COMM=1" in hint(row(1), tail, ())


def test_the_port_error_of_old_torch() -> None:
    frame = '  File "/opt/venv/lib/python3.8/site-packages/torch/distributed/rendezvous.py", line 175, in f\n'
    text = f"Traceback (most recent call last):\n{frame}RuntimeError: Address already in use\n"
    assert "ddp_job_port_range" in hint(row(), text, ())


def test_nobody_has_an_error_of_its_own() -> None:
    tail = TAILS["gloo-peer-exits"].text
    assert "read the ends of all logs" in hint(row(), tail, ())
    silent = [RankOutcome(number, f"h{number}", "exited", exit_code=143, stopped=True) for number in range(2, 8)]
    got = hint(row(), tail, silent)
    assert "still running when stopped: rank 2 on h2, 3 on h3, 4 on h4, 5 on h5, ...; read its log" in got
    assert got.endswith("ddp-play logs RUN --rank 2")


def test_a_command_that_is_not_in_the_image() -> None:
    tail = 'some output\nFATAL:   "python": executable file not found in $PATH\n'
    assert "python3" in hint(row(255), tail, ())
