"""Processes that stand for guards and ranks of an attempt, and their rows in a guard's state."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import processes

if TYPE_CHECKING:
    from collections.abc import Iterator

SLEEPS = "echo; exec sleep 100"
LAST_WORDS = "trap 'sleep 0.3; echo > %s; exit' TERM; echo; while :; do sleep 0.05; done"
DEAF = "trap '' TERM; echo; while :; do sleep 0.05; done"


@contextlib.contextmanager
def started(script: str) -> Iterator[subprocess.Popen[bytes]]:
    """A shell in a session of its own that has printed a line, ended with all its children at the end of the test."""
    command = ["/bin/sh", "-c", script]
    with subprocess.Popen(command, start_new_session=True, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            processes.kill_descendants(process.pid)
            process.kill()


def row_of(process: subprocess.Popen[bytes], **more: Any) -> dict[str, Any]:
    """Row of a rank's process in a guard's state."""
    return {"pid": process.pid, "ticks": processes.start_ticks(process.pid), "container": None, **more}


def guard_state(process: subprocess.Popen[bytes], **more: Any) -> dict[str, Any]:
    """State of a guard that is this process."""
    ticks = processes.start_ticks(process.pid)
    return {"boot": processes.boot_id(), "guard_pid": process.pid, "guard_ticks": ticks, **more}


@contextlib.contextmanager
def hung(directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program whose first line names a process that survives SIGKILL until the program's standard input is closed."""
    if os.geteuid() != 0 or not Path("/dev/fuse").exists():
        pytest.skip("needs root and /dev/fuse")
    directory.mkdir()
    command = [sys.executable, "-m", "tests.unit.guard.hung_rank", str(directory)]
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root) as program:
        try:
            yield program
        finally:
            program.communicate(timeout=10)
