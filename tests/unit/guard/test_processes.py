"""Processes by exact identity."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import processes
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

# The guard runs as a package of its own, without ddp_play.
SOURCES = str(Path(processes.__file__).parents[1])


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process in a session of its own, which has a child that has a child."""
    with subprocess.Popen(["/bin/sh", "-c", "sh -c 'sleep 100; :' & wait"], start_new_session=True) as process:
        wait_until(lambda: len(processes.descendants(process.pid)) == 2)
        yield process
        for pid in processes.descendants(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.kill()


def test_identity_is_pid_and_start(child: subprocess.Popen[bytes]) -> None:
    ticks = processes.start_ticks(child.pid)
    assert ticks
    assert processes.alive(child.pid, ticks)
    assert processes.alive(child.pid, None)
    assert not processes.alive(child.pid, ticks + 1), "the same pid, another process"


def test_a_zombie_is_not_alive() -> None:
    with subprocess.Popen(["true"]) as process:
        wait_until(lambda: not processes.alive(process.pid, None))
        assert processes.start_ticks(process.pid) is not None, "still there, unreaped"
    assert processes.start_ticks(process.pid) is None


def test_nobody_else_is_signalled(child: subprocess.Popen[bytes]) -> None:
    ticks = processes.start_ticks(child.pid) or 0
    assert not processes.signal_exactly(child.pid, ticks + 1, signal.SIGKILL)
    assert not processes.signal_exactly(1, None, 0)
    assert not processes.signal_exactly(0, None, 0)
    assert not processes.signal_exactly(-1, None, 0)
    assert child.poll() is None
    assert processes.signal_exactly(child.pid, ticks, signal.SIGKILL)
    assert child.wait(20) == -signal.SIGKILL
    assert not processes.signal_exactly(child.pid, ticks, signal.SIGKILL), "gone"


def test_a_group_goes_together(child: subprocess.Popen[bytes]) -> None:
    below = processes.descendants(child.pid)
    assert processes.signal_exactly(child.pid, processes.start_ticks(child.pid), signal.SIGKILL, group=True)
    child.wait(20)
    wait_until(lambda: not any(processes.alive(pid, None) for pid in below))


def test_descendants_are_parents_first(child: subprocess.Popen[bytes]) -> None:
    first, second = processes.descendants(child.pid)
    assert processes.descendants(first) == [second]
    assert processes.descendants(second) == []


def test_killing_descendants_spares_the_root(child: subprocess.Popen[bytes]) -> None:
    assert processes.kill_descendants(child.pid) == 2
    assert child.wait(20) == 0, "its wait ended by itself"
    assert processes.kill_descendants(child.pid) == 0


def test_odd_command_names_do_not_confuse(tmp_path: Any) -> None:
    """The name in /proc/PID/stat is in parentheses and may hold any of its own."""
    odd = tmp_path / ") R 1 (x"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([str(odd), "100"]) as process:
        assert processes.alive(process.pid, processes.start_ticks(process.pid))
        assert process.pid in processes.descendants(os.getpid())
        process.kill()


def test_a_subreaper_inherits_what_ranks_forked() -> None:
    program = (
        f"import sys; sys.path.insert(0, {SOURCES!r})\n"
        "import os, subprocess, time\nfrom guard import processes\nprocesses.become_subreaper()\n"
        "subprocess.run(['/bin/sh', '-c', 'sleep 100 & exit 0'])\n"
        "print(len(processes.descendants(os.getpid())), processes.kill_descendants(os.getpid()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=True)
    assert done.stdout == b"1 1\n"


def test_this_boot_has_an_id() -> None:
    assert len(processes.boot_id()) == 36
    assert processes.boot_id() == processes.boot_id()
