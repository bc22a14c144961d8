"""Signals of ranks below a process that forwards them, as Apptainer does: a program of the test stands for it."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard import processes, ranks
from ddp_play.guard.container_rank import make
from ddp_play.guard.image_rank import ImageRank
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
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda number, _frame: os.write(1, b"told %d\\n" % number))
os.write(1, b"ready\\n")
while True:
    time.sleep(0.05)
"""


@pytest.fixture
def rank(tmp_path: Path) -> ImageRank:
    place = HostRun(tmp_path / "runs" / "night" / "1.h1")
    place.logs.mkdir(parents=True)
    words = [sys.executable, "-c", FORWARDS, TOLD]
    made = make({"rank": 0, "argv": words, "env": {}, "workdir": "/", "num_image_words": 3}, place)
    assert isinstance(made, ImageRank)
    made.start()
    wait_until(lambda: "ready" in made.log.read_text(), timeout_s=20, what="ready")
    return made


def end(rank: ImageRank) -> None:
    rank.send(signal.SIGKILL)

    def ended() -> bool:
        ranks.reap([rank])
        return not rank.running

    wait_until(ended, timeout_s=20, what="the end")


def test_every_signal_reaches_the_command_once(rank: ImageRank) -> None:
    rank.warn(signal.SIGUSR1)
    wait_until(lambda: "told 10" in rank.log.read_text(), timeout_s=20, what="the warning")
    rank.send(signal.SIGTERM)
    wait_until(lambda: "told 15" in rank.log.read_text(), timeout_s=20, what="the request")
    rank.warn(signal.SIGUSR1)  # had SIGTERM come twice, it would be in the log before this one
    wait_until(lambda: rank.log.read_text().count("told 10") == 2, timeout_s=20, what="the second warning")
    assert rank.log.read_text().splitlines() == ["ready", "told 10", "told 15", "told 10"]
    end(rank)
    assert (rank.row["exit_code"], rank.row["signal"], rank.row["stopped"]) == (137, signal.SIGKILL, True)


def test_kill_ends_the_whole_group(rank: ImageRank) -> None:
    (inside,) = [pid for pid, _ in rank._inside()]
    end(rank)
    wait_until(lambda: not processes.alive(inside, None), timeout_s=20, what="the command's end")
    rank.deliver(signal.SIGTERM)  # nobody is there, and the number may be somebody else's
