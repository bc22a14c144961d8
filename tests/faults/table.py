"""The table: every row, what to expect of it and what to do to bring it about."""

from __future__ import annotations

import signal

from tests.faults.rows import Expected, Row
from tests.faults.scene import Scene


def kill_rank(scene: Scene) -> None:
    """SIGKILL from outside, as by an administrator or the kernel."""
    scene.signal_rank(2, "KILL")


def failed(rank: int, host: str, exit_code: int, *says: str, **more: object) -> Expected:
    """The run ends because of this rank."""
    return Expected(True, "rank_failed", exit_code, rank=rank, host=host, says=says, **more)  # type: ignore[arg-type]


ROWS: tuple[Row, ...] = (
    Row(
        "rank exits 3",
        failed(3, "h3", 3, "rank 3 on h3 failed first: exit code 3"),
        victim=("--fault", "exit", "--at-rank", "3"),
        quick=True,
    ),
    Row(
        "rank raises",
        failed(1, "h1", 1, "ValueError: loss is nan", "victim.py"),
        victim=("--fault", "raise", "--at-rank", "1"),
        quick=True,
    ),
    Row(
        "rank crashes",
        failed(2, "h2", 128 + signal.SIGSEGV, "SIGSEGV"),
        victim=("--fault", "segv", "--at-rank", "2"),
    ),
    Row(
        "rank SIGKILLed",
        failed(2, "h2", 128 + signal.SIGKILL, "SIGKILL"),
        fault=kill_rank,
        quick=True,
    ),
)
