"""Orderly shutdown or reboot of this host: systemd ends what runs here, ranks and guards too, in any order."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING, List

from .rank_failure import signal_in

if TYPE_CHECKING:
    from .ranks import Rank

# systemd answers within milliseconds; a sick host may not, and its ranks have to be ended all the same.
ANSWER_S = 1.0
# Exists while systemd is process 1: the manual page of sd_booted.
SYSTEMD = "/run/systemd/system"
PROCESS_1 = "/proc/1/comm"
# What systemd becomes at last, when it answers nothing any more; the kernel cuts names at 15 characters.
LAST_STEP = "systemd-shutdow"
BY_SHUTDOWN = (signal.SIGTERM, signal.SIGKILL)


def ended_one_of(ranks: List[Rank]) -> bool:
    """Whether one of these failed ranks was ended because the host shuts down."""
    return any(signal_in(rank.row["exit_code"]) in BY_SHUTDOWN for rank in ranks) and is_under_way()


def is_under_way() -> bool:
    """Whether a shutdown has begun. False without systemd, and if there is no answer within ANSWER_S."""
    answers: List[bool] = []
    asking = threading.Thread(target=lambda: answers.append(_ask()), name="shutdown", daemon=True)
    asking.start()
    asking.join(ANSWER_S)
    return any(answers)


def _ask() -> bool:
    with contextlib.suppress(OSError):
        if Path(PROCESS_1).read_text().strip() == LAST_STEP:
            return True
    if not os.path.isdir(SYSTEMD):
        return False
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        words = ["systemctl", "is-system-running"]
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        done = subprocess.run(words, stdin=null, stdout=pipe, stderr=null, timeout=ANSWER_S, check=False)
        return done.stdout.strip() == b"stopping"
    return False
