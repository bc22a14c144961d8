"""Ranks that a torchrun starts: the guard owns the torchrun and learns of the ranks from the files they leave.

The wrapper around each rank (the plan writes it) leaves `.started` with its pid and `.exited` with the exit code.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import kernel_log, proc
from .ranks import Rank, make

if TYPE_CHECKING:
    from pathlib import Path

    from .run_files import HostRun

TAIL_BYTES = 2000
# A host may hide what runs in containers: then a rank goes without its pid.
PID_ATTEMPTS = 20


class Agent:
    """A host's torchrun and the ranks it starts."""

    def __init__(self, spec: Dict[str, Any], place: HostRun) -> None:
        self.unit = make(spec["agent"], place)
        self.unit.log = place.agent_log
        self.workers = [Worker(rank, place, self.unit) for rank in spec["ranks"]]

    def poll(self) -> None:
        """Take over what the ranks left since, the first end first: it is the cause."""
        for worker in self.workers:
            worker.notice_start()
        ended = [(worker.exit_time(), worker) for worker in self.workers if worker.row["state"] == "running"]
        for when, worker in sorted(((when, worker) for when, worker in ended if when), key=lambda pair: pair[0]):
            worker.take_exit(when, after_failure=any(other.failed for other in self.workers))
        if self.unit.row["state"] == "exited":
            for worker in self.workers:
                worker.agent_ended()


class Worker(Rank):
    """One rank under a torchrun."""

    def __init__(self, spec: Dict[str, Any], place: HostRun, agent: Rank) -> None:
        super().__init__(spec, place)
        self.agent = agent
        self.directory = place.rank_dir(self.number)
        self.row["container"] = agent.spec.get("container")
        self.inside = 0  # its pid as its wrapper knows it
        self.pid_attempts_left = PID_ATTEMPTS if self.row["container"] else 0

    def start(self) -> None:
        """torchrun does."""

    def poll(self) -> None:
        """The agent looks for all of its ranks, in the order of their ends."""

    def send(self, signum: int) -> None:
        """torchrun passes signals on."""

    def deliver(self, signum: int) -> None:
        """To the rank's first process, below its wrapper: torchrun would end by a signal it does not know."""
        if self.running and self.row["pid"] and proc.alive(self.row["pid"], self.row["ticks"]):
            for first in proc.descendants(self.row["pid"])[:1]:
                with contextlib.suppress(PermissionError):  # a container of another user's
                    proc.signal_exactly(first, proc.start_ticks(first), signum)

    def notice_start(self) -> None:
        """Has the rank been started? A container counts its processes by itself, so its pid has to be found there."""
        path = self.directory / ".started"
        if self.row["state"] == "running" and not self.row["pid"] and self.pid_attempts_left and self.agent.row["pid"]:
            self.pid_attempts_left -= 1
            self._set_pid(proc.pid_outside_namespace(self.inside, self.agent.row["pid"]))
        if self.row["state"] != "created" or not path.exists():
            return
        text = _read(path)
        self.inside = int(text) if text.isdigit() else 0
        self._set_pid(None if self.row["container"] else self.inside)
        self.row.update(state="running", started=path.stat().st_mtime)

    def _set_pid(self, pid: Optional[int]) -> None:
        if pid:
            self.row.update(pid=pid, ticks=proc.start_ticks(pid))
            self.witness = kernel_log.Witness(pid)

    def exit_time(self) -> Optional[float]:
        """When it left its exit code, in epoch seconds; None before that."""
        try:
            return (self.directory / ".exited").stat().st_mtime
        except OSError:
            return None

    def take_exit(self, when: float, *, after_failure: bool) -> None:
        """Record its end. torchrun ends the other ranks of its host when one has failed: these were stopped."""
        text = _read(self.directory / ".exited")
        code = int(text) if text.isdigit() else None
        signum = code - 128 if code is not None and 128 < code <= 192 else None
        self.signalled = self.agent.signalled or (after_failure and signum in (signal.SIGTERM, signal.SIGKILL))
        self.ended(code, signum=signum)
        self.row["ended"] = when

    def agent_ended(self) -> None:
        """torchrun is gone: whatever it has not told is known no better than from its own end."""
        row = self.agent.row
        if self.row["state"] == "exited":
            self.row["oom"] = self.row["oom"] or (row["oom"] and self.row["exit_code"] == 137 and not self.signalled)
            return
        self.signalled = self.agent.signalled
        tail = _read(self.agent.log, TAIL_BYTES)
        self.say("torchrun ended before this rank did" + (":\n" + tail if tail else ""))
        self.row["oom"] = row["oom"]
        self.ended(row["exit_code"] or None, signum=row["signal"], detail="torchrun ended: see the end of the log")


def _read(path: Path, num_bytes: int = 64) -> str:
    """The end of a file as text; empty where there is none."""
    try:
        with open(str(path), "rb") as handle:
            handle.seek(max(0, os.fstat(handle.fileno()).st_size - num_bytes))
            return handle.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def make_all(spec: Dict[str, Any], place: HostRun) -> "tuple[List[Rank], List[Rank], Optional[Agent]]":
    """(ranks to report, units to start and signal, the torchrun if there is one) of a host's spec."""
    if not spec.get("agent"):
        ranks = [make(rank, place) for rank in spec["ranks"]]
        return ranks, ranks, None
    agent = Agent(spec, place)
    return list(agent.workers), [agent.unit], agent
