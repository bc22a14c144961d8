"""Gang of ranks as processes on this machine: started, waited for with a deadline, and killed at the end."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass
class Rank:
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def text(self) -> str:
        return self.log.read_text(encoding="utf-8")


class Gang:
    """The processes of one world."""

    def __init__(self, ranks: Sequence[Rank]) -> None:
        self.ranks = ranks

    @property
    def text(self) -> str:
        return "\n".join(f"--- rank {number}\n{rank.text}" for number, rank in enumerate(self.ranks))

    def wait(self, timeout_s: float = 60) -> list[int]:
        """Exit codes in rank order; a rank that outlives the deadline fails the test with all output."""
        deadline = time.monotonic() + timeout_s
        try:
            return [rank.process.wait(max(0.1, deadline - time.monotonic())) for rank in self.ranks]
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"still running after {timeout_s} s:\n{self.text}") from error

    def wait_until(self, condition: Callable[[], bool], timeout_s: float = 60) -> None:
        """Return once the condition holds; fail if a rank ends before or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert all(rank.process.poll() is None for rank in self.ranks), self.text
            assert time.monotonic() < deadline, f"not within {timeout_s} s:\n{self.text}"
            time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rank_env(rank: int, world_size: int, **extra: str) -> dict[str, str]:
    """Environment of a rank, without the caller's RANK or TORCHELASTIC_* variables."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {
        **kept,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": str(ROOT),
        **extra,
    }


@contextmanager
def gang(
    directory: Path,
    world_size: int,
    arguments: Sequence[str],
    *,
    per_rank: Callable[[int], Sequence[str]] = lambda rank: (),
    env: Callable[[int], dict[str, str]] = lambda rank: {},
) -> Iterator[Gang]:
    """Run `python ARGUMENTS` once per rank, each in its own process group, with `directory` for logs and as cwd."""
    directory.mkdir(parents=True, exist_ok=True)
    port = str(free_port())
    ranks: list[Rank] = []
    try:
        for number in range(world_size):
            log = directory / f"rank-{number}.log"
            with log.open("wb") as output:
                process = subprocess.Popen(
                    [sys.executable, *arguments, *per_rank(number)],
                    cwd=directory,
                    env=rank_env(number, world_size, MASTER_PORT=port, **env(number)),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            ranks.append(Rank(process, log))
        yield Gang(ranks)
    finally:
        for rank in ranks:
            if rank.process.poll() is None:
                os.killpg(rank.process.pid, signal.SIGKILL)
            rank.process.wait()
