"""Processes on the GPU: who uses it, and one that keeps it busy."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.guard import gpus
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

RANK = Path(__file__).parent / "rank.py"


def users() -> list[str]:
    """Pids of the processes that use a GPU. These tests do not: checks put no load where somebody is."""
    (text,) = gpus.smi(["--query-compute-apps=pid", "--format=csv,noheader"])
    return text.split()


@contextmanager
def busy() -> Iterator[int]:
    """The pid of a process that multiplies on GPU 0 all the time."""
    child = subprocess.Popen([sys.executable, str(RANK), "busy", "120"], stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: str(child.pid) in users(), timeout_s=60, what="the process on the GPU")
        yield child.pid
    finally:
        child.kill()
        child.wait()
