"""CPU time and memory of a rank, of real processes: children, ends, and pids that were used again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.guard.processes import start_ticks, uptime_s
from ddp_play.guard.rank_usage import RankProcesses
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

# Each works for so many seconds of CPU time, and then says so.
WORK = "import time\ndef work(s):\n    end = time.process_time() + s\n    while time.process_time() < end: pass\n"


@contextlib.contextmanager
def program(text: str) -> Iterator[subprocess.Popen[str]]:
    """A Python program that prints lines and goes on at each line of its input; ended with all that it started."""
    argv = [sys.executable, "-u", "-c", WORK + text]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as made:
        try:
            yield made
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(made.pid, signal.SIGKILL)


def line(made: subprocess.Popen[str]) -> str:
    assert made.stdout is not None
    return made.stdout.readline().strip()


def go_on(made: subprocess.Popen[str]) -> None:
    assert made.stdin is not None
    made.stdin.write("\n")
    made.stdin.flush()


def test_time_from_the_first_reading_on_and_memory() -> None:
    with program("work(0.3); print(1); input(); work(0.2); a = bytearray(200 << 20); print(2); input()") as rank:
        assert line(rank) == "1"
        usage = RankProcesses(rank.pid, start_ticks(rank.pid))
        first = usage.read(0.0, all_threads=True)
        assert first is not None
        assert first[0] == 0.0
        assert 1 << 20 < first[1] < 100 << 20
        go_on(rank)
        assert line(rank) == "2"
        found = usage.read(uptime_s(), all_threads=False)
        assert found is not None
        used_s, memory = found
        assert 0.15 <= used_s < 2.0
        assert memory > 200 << 20


CHILD = "subprocess.Popen([sys.executable, '-c', TEXT])"
TREE = f"""
import subprocess, sys
TEXT = '''{WORK}work(0.3)
print("worked", flush=True); input()'''
input()
child = {CHILD}
child.wait()
print("waited"); input()
"""


def test_children_count_while_they_live_and_after_they_were_waited_for() -> None:
    with program(TREE) as rank:
        usage = RankProcesses(rank.pid, None)
        began = uptime_s()
        usage.read(0.0, all_threads=True)
        go_on(rank)
        assert line(rank) == "worked"
        alive = usage.read(began, all_threads=False)
        go_on(rank)
        assert line(rank) == "waited"
        ended = usage.read(uptime_s(), all_threads=False)
        assert alive is not None
        assert ended is not None
        assert alive[0] >= 0.25
        assert alive[0] <= ended[0] < alive[0] + 0.25, "the child's time is in its parent's now, and counts once"


def test_a_child_of_another_thread_is_found_and_its_earlier_time_does_not_count() -> None:
    text = TREE.replace("child = ", "import threading\nthreading.Thread(target=lambda: ").replace(
        "TEXT])\n", "TEXT]).wait()).start()\n"
    )
    with program(text.replace("child.wait()\n", "")) as rank:
        usage = RankProcesses(rank.pid, None)
        usage.read(0.0, all_threads=False)
        go_on(rank)
        assert {line(rank), line(rank)} == {"worked", "waited"}
        late = uptime_s()
        first_thread = usage.read(late, all_threads=False)
        all_threads = usage.read(late + 1, all_threads=True)
        assert first_thread is not None
        assert all_threads is not None
        assert all_threads[1] > first_thread[1] + (1 << 20)
        assert all_threads[0] < first_thread[0] + 0.2


def test_processes_that_have_ended_leave_nothing_open() -> None:
    with program("input()") as rank:
        usage = RankProcesses(rank.pid, None)
        assert usage.read(0.0, all_threads=True) is not None
        num_open = len(list(Path("/proc/self/fd").iterdir()))
        rank.kill()
        rank.wait()
        wait_until(lambda: usage.read(uptime_s(), all_threads=True) is None, timeout_s=10, what="the end")
        assert len(list(Path("/proc/self/fd").iterdir())) == num_open - 1


def test_another_process_with_the_pid_is_not_the_rank() -> None:
    with program("input()") as rank:
        ticks = start_ticks(rank.pid)
        assert ticks is not None
        assert RankProcesses(rank.pid, ticks + 1).read(0.0, all_threads=True) is None
        assert RankProcesses(1 << 30, None).read(0.0, all_threads=True) is None
