"""Processes by exact identity."""

from __future__ import annotations

import builtins
import contextlib
import os
import resource
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import processes
from tests.endings import kill_each
from tests.unit.guard.stand_ins import SLEEPS, started
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
        kill_each(processes.descendants(process.pid))
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


ONLY_A_THREAD_IS_LEFT = """
import ctypes, os, threading, time
number = {"x86_64": 60, "aarch64": 93}[os.uname().machine]  # exit(2), of the calling thread alone
threading.Thread(target=time.sleep, args=(100,)).start()
ctypes.CDLL(None).syscall(number, 0)
"""


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the number of exit(2) is not known")
def test_a_process_whose_first_thread_has_ended_is_alive() -> None:
    """As after SIGKILL, while another thread waits for a dead NFS server: it may still write."""
    with subprocess.Popen([sys.executable, "-c", ONLY_A_THREAD_IS_LEFT]) as process:
        try:
            wait_until(lambda: (processes.stat_fields(process.pid) or "-")[0] == "Z")
            ticks = processes.start_ticks(process.pid)
            assert processes.alive(process.pid, ticks)
            assert process.pid in processes.children(os.getpid())
            assert processes.signal_exactly(process.pid, ticks, signal.SIGKILL)
            wait_until(lambda: not processes.alive(process.pid, ticks))
            assert process.pid not in processes.children(os.getpid())
        finally:
            process.kill()


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


def test_a_host_that_hides_its_boot_has_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(builtins, "open", hidden)
    assert processes.boot_id() == ""


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group that is named by the id of a container."""
    base = Path("/sys/fs/cgroup/pids")
    path = (base if base.is_dir() else base.parent) / secrets.token_hex(32)
    try:
        path.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    yield path
    with contextlib.suppress(OSError):
        wait_until(lambda: not (path / "cgroup.procs").read_text())
        path.rmdir()


def test_the_first_process_of_a_container_is_the_oldest_that_lives(group: Path) -> None:
    join = f"echo $$ >{group}/cgroup.procs; {SLEEPS}"
    assert processes.first_in_container(group.name) is None
    with started(join) as first:
        ticks = processes.start_ticks(first.pid)
        wait_until(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") > (ticks or 0) + 1)
        with started(join) as second, started(SLEEPS):
            assert processes.first_in_container(group.name) == first.pid
            first.kill()
            wait_until(lambda: not processes.alive(first.pid, None))
            assert processes.first_in_container(group.name) == second.pid
    assert processes.first_in_container("") is None


def test_a_pid_inside_a_container_is_found_outside() -> None:
    command = ["unshare", "--pid", "--fork", "--kill-child", "/bin/sh", "-c", "sleep 100 & sleep 100 & wait"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as outer:
        try:
            try:
                wait_until(lambda: outer.poll() is not None or len(processes.descendants(outer.pid)) == 3, timeout_s=10)
            except AssertionError:
                pytest.fail("the namespace does not start")
            if outer.poll() is not None:
                pytest.skip("no pid namespace can be made here")
            (init,) = processes.children(outer.pid)
            inner = processes.children(init)
            assert processes.pid_outside_namespace(1, outer.pid) == init
            assert [processes.pid_outside_namespace(pid, outer.pid) for pid in (2, 3)] == sorted(inner)
            assert processes.pid_outside_namespace(99, outer.pid) is None
            assert processes.pid_outside_namespace(1, None) is None
            assert processes.pid_outside_namespace(init, os.getpid()) is None, "that is its pid outside"
        finally:
            outer.kill()


def test_a_signal_without_a_group_spares_the_group(child: subprocess.Popen[bytes]) -> None:
    below = processes.descendants(child.pid)
    assert processes.signal_exactly(child.pid, processes.start_ticks(child.pid), signal.SIGKILL)
    assert child.wait(20) == -signal.SIGKILL
    assert all(processes.alive(pid, None) for pid in below)
    kill_each(below)


def test_a_signal_to_another_users_process_is_an_error() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to be two users")
    program = (
        f"import os, sys; sys.path.insert(0, {SOURCES!r})\n"
        "from guard import processes\nos.setuid(65534)\n"
        "try:\n    processes.signal_exactly(int(sys.argv[1]), None, 0)\nexcept PermissionError:\n    print('denied')"
    )
    with started(SLEEPS) as ours:
        command = [sys.executable, "-c", program, str(ours.pid)]
        assert subprocess.run(command, capture_output=True, timeout=60, check=True).stdout == b"denied\n"


def test_core_files_are_off_and_may_be_asked_for() -> None:
    before = resource.getrlimit(resource.RLIMIT_CORE)
    try:
        processes.no_core_files()
        assert resource.getrlimit(resource.RLIMIT_CORE) == (0, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)


def test_the_uptime_is_that_of_the_host() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= processes.uptime_s() <= time.clock_gettime(time.CLOCK_BOOTTIME)
