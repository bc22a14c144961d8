"""The limit of an answer: the program ends by itself and names the step, also while a system call does not return."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from ddp_play.guard.answer_limit import EXIT_CODE, AnswerLimit
from ddp_play.guard.protocol import MAGIC, encode
from tests.unit.guard import host_program

if TYPE_CHECKING:
    from pathlib import Path

# Blocks every signal: to a Python handler that is a system call that does not return.
STUCK = """
import signal, sys, time
sys.path.insert(0, "src")
from ddp_play.guard.answer_limit import AnswerLimit
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
AnswerLimit("facts", 1).during("the shared directory /mnt/data", time.sleep, 600)
"""


def test_a_step_that_does_not_end_is_named() -> None:
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, timeout=60, check=False)
    assert done.returncode == EXIT_CODE, done.stderr.decode()
    assert done.stderr.decode() == (
        "the program on the host did not finish 'facts' within 1 s: it was still at the shared directory /mnt/data\n"
    )
    assert time.monotonic() - began < 30


def test_a_limit_that_is_met_ends_nothing() -> None:
    limit = AnswerLimit("runs", 30)
    assert limit.during("a sum", sum, (1, 2)) == 3
    limit.met()
    assert limit._timer is not None
    assert limit._timer.finished.is_set()
    assert AnswerLimit("runs").during("no limit", os.getpid) == os.getpid()


def test_facts_name_a_program_that_does_not_answer(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 3\n")
    python.chmod(0o755)
    process = host_program.start(tmp_path, "channel")
    out, err = process.communicate(encode("facts", wanted={"python": str(python), "limit_s": 1}), timeout=60)
    assert process.returncode == EXIT_CODE, err.decode()
    assert err.decode().endswith("within 1 s: it was still at the ranks' Python\n")
    assert out == MAGIC
