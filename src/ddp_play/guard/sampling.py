"""The guard's sampler: started once its ranks have run for a moment, ended when they have ended."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any, Dict, Optional

from . import processes

if TYPE_CHECKING:
    from .run_directory import HostRun

AFTER_S = 2.0  # a run that ends sooner pays nothing for it
END_S, POLL_S = 0.25, 0.002  # for its last sample


class Sampling:
    """Starts and ends the process. Nothing of it is waited for but its last sample, for a moment."""

    def __init__(self, place: HostRun, limits: Dict[str, Any]) -> None:
        self._place = place
        self._wanted = bool(limits.get("samples_s"))
        self._since: Optional[float] = None
        self._child: Optional["subprocess.Popen[bytes]"] = None
        self._ticks: Optional[int] = None

    def keep(self) -> None:
        """Start it if it is time."""
        self._since = self._since or time.monotonic()
        if not self._wanted or time.monotonic() - self._since < AFTER_S:
            return
        self._wanted = False
        command = [sys.executable, "-I", "-S", sys.argv[0], "samples", str(self._place.root)]
        with contextlib.suppress(OSError):  # no process is to be had: a run without samples
            self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd="/")
            self._child.returncode = 0  # reaped by the guard, not by Popen
            self._ticks = processes.start_ticks(self._child.pid)

    def end(self) -> None:
        """Let it take its last sample, and end it. One that a device holds is left behind: it has no files of ours."""
        child, self._child, self._wanted = self._child, None, False
        if child is None or child.stdin is None:
            return
        child.stdin.close()
        until = time.monotonic() + END_S
        while processes.alive(child.pid, self._ticks) and time.monotonic() < until:
            time.sleep(POLL_S)
        with contextlib.suppress(PermissionError):
            processes.signal_exactly(child.pid, self._ticks, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(child.pid, os.WNOHANG)
