"""Ending processes that a test found in a list: some may have ended by themselves in the meantime."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable


def kill_each(pids: Iterable[int]) -> None:
    """SIGKILL for each of them that is still there, after SIGSTOP for all: none sees another one end before its own."""
    together = tuple(pids)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in together:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
