"""Ranks under torchrun: the guard owns torchrun and reads the states of the ranks from files.

The wrapper around each rank (the plan writes it) leaves `.started` with its pid and `.exited` with the exit code.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import kernel_log, processes
from .container_rank import make
from .ranks import Rank

if TYPE_CHECKING:
    from pathlib import Path

    from .run_directory import HostRun

TAIL_BYTES = 2000
# A host may hide processes of containers: after so many attempts a rank stays without a pid.
PID_ATTEMPTS = 20


class Agent:
    """The torchrun of a host and the ranks that it starts."""

    def __init__(self, spec: Dict[str, Any], place: HostRun) -> None:
        self.unit = make(spec["agent"], place)
        self.unit.log = place.agent_log
        self.workers = [Worker(rank, place, self.unit) for rank in spec["ranks"]]

    def poll(self) -> None:
        """Read new files of the ranks; ends are recorded in the order in which they happened."""
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
        self.inside = 0  # its pid in the pid namespace of its wrapper
        self.pid_attempts_left = PID_ATTEMPTS if self.row["container"] else 0

    def start(self) -> None:
        """Nothing to do: torchrun starts the rank."""

    def poll(self) -> None:
        """Nothing to do: the agent polls all of its ranks."""

    def send(self, signum: int) -> None:
        """Nothing to do: torchrun forwards signals."""

    def deliver(self, signum: int) -> None:
        """Signal the rank's first process below its wrapper: torchrun would end on a signal that it does not handle."""
        if self.running and self.row["pid"] and processes.alive(self.row["pid"], self.row["ticks"]):
            for first in processes.descendants(self.row["pid"])[:1]:
                with contextlib.suppress(PermissionError):  # a container of another user's
                    processes.signal_exactly(first, processes.start_ticks(first), signum)

    def notice_start(self) -> None:
        """Record the start; the pid of a rank in a container is looked up through its pid namespace."""
        path = self.directory / ".started"
        if self.row["state"] == "running" and not self.row["pid"] and self.pid_attempts_left and self.agent.row["pid"]:
            self.pid_attempts_left -= 1
            self._set_pid(processes.pid_outside_namespace(self.inside, self.agent.row["pid"]))
        if self.row["state"] != "created" or not path.exists():
            return
        text = _read(path)
        self.inside = int(text) if text.isdigit() else 0
        self._set_pid(None if self.row["container"] else self.inside)
        self.row.update(state="running", started=path.stat().st_mtime)

    def _set_pid(self, pid: Optional[int]) -> None:
        if pid:
            self.row.update(pid=pid, ticks=processes.start_ticks(pid))
            self.witness = kernel_log.Witness(pid)

    def exit_time(self) -> Optional[float]:
        """When the exit code was written, in epoch seconds; None before that."""
        try:
            return (self.directory / ".exited").stat().st_mtime
        except OSError:
            return None

    def take_exit(self, when: float, *, after_failure: bool) -> None:
        """Record the end; ranks that torchrun ended after another one failed count as stopped."""
        text = _read(self.directory / ".exited")
        code = int(text) if text.isdigit() else None
        signum = code - 128 if code is not None and 128 < code <= 192 else None
        self.signalled = self.agent.signalled or (after_failure and signum in (signal.SIGTERM, signal.SIGKILL))
        self.ended(code, signum=signum)
        self.row["ended"] = when

    def agent_ended(self) -> None:
        """Record the end of a rank of which only the end of torchrun is known."""
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
    """Last `num_bytes` of a file as text; empty if it cannot be read."""
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
