"""Signals of ranks below a process that forwards them, as Apptainer does: a program of the test stands for it."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import processes, ranks
from ddp_play.guard.apptainer_rank import ApptainerRank
from ddp_play.guard.container_rank import make
from ddp_play.guard.run_directory import HostRun
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

# Forwards each signal to its child, and ends as the child did.
FORWARDS = """
import os, signal, sys
child = os.posix_spawn(sys.executable, [sys.executable, "-c", sys.argv[1]], os.environ)
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, _frame: os.kill(child, number))
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
if code < 0:
    signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
TOLD = """
import os, signal, time
WHO = b"own" if os.fork() else b"child"
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, _frame: os.write(1, b"%s told %d\\n" % (WHO, number)))
os.write(1, b"%s ready\\n" % WHO)
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def place(tmp_path: Path) -> HostRun:
    made = HostRun(tmp_path / "runs" / "night" / "1.h1")
    made.logs.mkdir(parents=True)
    return made


def started(place: HostRun, *words: str) -> ApptainerRank:
    made = make({"rank": 0, "argv": list(words), "env": {}, "workdir": "/", "num_image_words": 3}, place)
    assert isinstance(made, ApptainerRank)
    made.start()
    return made


@pytest.fixture
def rank(place: HostRun) -> ApptainerRank:
    """Apptainer's stand-in, the command, and a process that the command has forked."""
    made = started(place, sys.executable, "-c", FORWARDS, TOLD)
    wait_for(made, "own ready", "child ready")
    return made


def wait_for(rank: ApptainerRank, *lines: str) -> None:
    wait_until(lambda: set(lines) <= set(rank.log.read_text().splitlines()), timeout_s=20, what=str(lines))


def end(rank: ApptainerRank) -> None:
    rank.send(signal.SIGKILL)

    def ended() -> bool:
        ranks.reap([rank])
        return not rank.running

    wait_until(ended, timeout_s=20, what="the end")


def test_every_signal_reaches_each_process_once(rank: ApptainerRank) -> None:
    rank.warn(signal.SIGUSR1)
    wait_for(rank, "own told 10")
    rank.send(signal.SIGTERM)
    wait_for(rank, "own told 15", "child told 15")
    rank.deliver(signal.SIGUSR1)  # had one come twice, it would be in the log before this one
    wait_for(rank, "child told 10")
    wait_until(lambda: rank.log.read_text().count("own told 10") == 2, timeout_s=20, what="the second warning")
    lines = [line for line in rank.log.read_text().splitlines() if "told" in line]
    assert sorted(lines) == ["child told 10", "child told 15", "own told 10", "own told 10", "own told 15"]
    end(rank)
    assert (rank.row["exit_code"], rank.row["signal"], rank.row["stopped"]) == (137, signal.SIGKILL, True)


def test_kill_ends_the_whole_group(rank: ApptainerRank) -> None:
    inside = [pid for pid, _ in rank._inside()]
    assert len(inside) == 2
    assert rank.row["pid"] not in inside
    end(rank)
    wait_until(lambda: not any(processes.alive(pid, None) for pid in inside), timeout_s=20, what="the end of all")
    rank.deliver(signal.SIGTERM)  # nobody is there, and the number may be somebody else's


def test_before_there_is_a_command_apptainer_gets_the_signal(place: HostRun) -> None:
    alone = started(place, sys.executable, "-c", TOLD.replace("os.fork()", "1"))
    wait_for(alone, "own ready")
    alone.send(signal.SIGTERM)
    wait_for(alone, "own told 15")
    end(alone)
