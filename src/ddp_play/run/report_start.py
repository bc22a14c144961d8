"""Start of the program that writes a run's report at its end: a process of its own, which nothing waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths

# Environment variable of the command; with this value runs write no report.
REPORT_ENV, NO_REPORT = "DDP_PLAY_REPORT", "no"
PROGRAM = "ddp_play.report.write_report"


def start_report(paths: RunPaths) -> None:
    """Start it, and return at once. A report that cannot be made changes nothing about the run."""
    if os.environ.get(REPORT_ENV) == NO_REPORT or not paths.run.exists():
        return
    with suppress(OSError), paths.supervisor_log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", PROGRAM, str(paths.root)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, close_fds=True,
        )  # fmt: skip
        process.returncode = 0  # no warning from Popen: the process is meant to outlive this one
