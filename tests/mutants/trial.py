"""Trial of one mutant: its tests in a forked process, with a time limit."""

from __future__ import annotations

import os
import signal
import sys
import time
from enum import Enum
from typing import NoReturn

POLL_S = 0.02
# Imported before the fork, which saves each trial about a second. Nothing of ddp_play: a trial imports the mutant.
PRELOADED = (
    "pytest",
    "ansible.plugins.loader",
    "ansible_runner",
    "pydantic",
    "yaml",
    "typer",
    "rich.console",
    "jinja2",
)


class Result(Enum):
    """How the tests took a mutant. The time limit counts as killed."""

    KILLED = "killed"
    SURVIVED = "survived"
    TIMEOUT = "timeout"


def preload() -> None:
    """Import what all trials need."""
    for name in PRELOADED:
        __import__(name)
    if any(name.partition(".")[0] == "ddp_play" for name in sys.modules):
        sys.exit("mutants: ddp_play was imported before the mutants were made")


def run_tests(tests: list[str], limit_s: float, log: str = os.devnull) -> Result:
    """Run pytest until the first failure; end whatever the tests have started."""
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(tests, log)
    status = None
    while status is None and time.monotonic() - began < limit_s:
        time.sleep(POLL_S)
        status = _reaped(child)
    end_all()
    if status is None:
        return Result.TIMEOUT
    return Result.SURVIVED if status == 0 else Result.KILLED


def end_all() -> None:
    """End all other processes of this pid namespace, of which this process is the first (`sandbox.close_behind`)."""
    if os.getpid() != 1:
        raise RuntimeError("not in a pid namespace of its own")
    try:
        os.kill(-1, signal.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ProcessLookupError, ChildProcessError):
        return


def _reaped(child: int) -> int | None:
    """Reap ended processes, adopted ones too; the wait status of `child` when it has ended."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 1
        if pid == child:
            return status
        if pid == 0:
            return None


def _child(tests: list[str], log: str) -> NoReturn:
    status = 70
    try:
        os.setsid()
        sink = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        import pytest  # noqa: PLC0415 - preloaded, and not needed where the list is only read

        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *tests]))
    finally:
        os._exit(status)
