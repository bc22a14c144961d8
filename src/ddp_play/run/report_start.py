"""Start of the program that writes a run's report at its end: a process of its own, which nothing waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.bundle.paths import RunPaths, read_json
from ddp_play.bundle.run_locks import is_locked
from ddp_play.bundle.run_lookup import has_ended

if TYPE_CHECKING:
    from collections.abc import Iterator

# Environment variable of the command; with this value runs write no report.
REPORT_ENV, NO_REPORT = "DDP_PLAY_REPORT", "no"
PROGRAM = "ddp_play.report.report_process"


@contextmanager
def reported(run_dir: str) -> Iterator[None]:
    """After the run in this directory has ended: start its report, unless its background process does so later.

    A run has no such process if ansible-playbook was called by hand, or if it was killed.
    """
    paths = RunPaths(Path(run_dir))
    try:
        yield
    finally:
        if not is_locked(paths.background_lock):
            start_report(paths)


def start_report(paths: RunPaths) -> None:
    """Start it, and return at once. A report that cannot be made changes nothing about the run."""
    if os.environ.get(REPORT_ENV) == NO_REPORT or not paths.run.exists():
        return
    with suppress(OSError), paths.supervisor_log.open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", PROGRAM, str(paths.root)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True, close_fds=True,
        )  # fmt: skip
        process.returncode = 0  # no warning from Popen: the process is meant to outlive this one


@contextmanager
def report_within(paths: RunPaths, limit_s: float) -> Iterator[None]:
    """What is started here writes no report; it is written afterwards, and waited for at most this long.

    For a controller whose processes all end with it, as those of a Slurm job do.
    """
    before = os.environ.get(REPORT_ENV)
    os.environ[REPORT_ENV] = NO_REPORT
    try:
        yield
    finally:
        os.environ.pop(REPORT_ENV)
        if before is not None:
            os.environ[REPORT_ENV] = before
    if before != NO_REPORT and has_ended(read_json(paths.run)):
        with suppress(OSError, subprocess.SubprocessError), paths.supervisor_log.open("ab") as log:
            command = [sys.executable, "-P", "-m", PROGRAM, str(paths.root)]
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=limit_s, check=False)
