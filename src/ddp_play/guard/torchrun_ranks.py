"""Ranks under torchrun: the guard owns torchrun and reads the states of the ranks from files.

The wrapper around each rank (the plan writes it) leaves `.started` with its pid and `.exited` with the exit code.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from . import kernel_log, processes
from .container_rank import make
from .protocol import EXITED, STARTED
from .rank_failure import signal_in
from .ranks import Rank
from .untrusted_paths import Below, open_file

if TYPE_CHECKING:
    from pathlib import Path

    from .run_directory import HostRun

TAIL_BYTES = 2000
NUMBER_BYTES = 20
MAX_EXIT_CODE = 255
# A host may hide processes of containers: after so many attempts a rank stays without a pid.
PID_ATTEMPTS = 20


class Agent:
    """The torchrun of a host and the ranks that it starts."""

    def __init__(self, spec: Dict[str, Any], place: HostRun) -> None:
        self.unit = make(spec["agent"], place)
        self.unit.log = place.agent_log
        self.workers = [Worker(rank, place, self.unit) for rank in spec["ranks"]]

    def identity(self) -> Dict[str, Any]:
        """Pid, start time and container of torchrun: its ranks are not known before their wrappers tell their pids."""
        return {name: self.unit.row[name] for name in ("pid", "ticks", "container")}

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
        if self.row["state"] == "running" and not self.row["pid"] and self.pid_attempts_left and self.agent.row["pid"]:
            self.pid_attempts_left -= 1
            self._set_pid(processes.pid_outside_namespace(self.inside, self.agent.row["pid"]))
        told = self._told(STARTED) if self.row["state"] == "created" else None
        if told is None:
            return
        text, when = told
        self.inside = _number(text) or 0
        # a rank may write any pid there, and what has it is signalled
        agent = self.agent.row["pid"]
        ours = bool(agent) and not self.row["container"] and self.inside in processes.descendants(agent)
        self._set_pid(self.inside if ours else None)
        self.row.update(state="running", started=when)

    def _set_pid(self, pid: Optional[int]) -> None:
        if pid:
            self.row.update(pid=pid, ticks=processes.start_ticks(pid))
            self.witness = kernel_log.Witness(pid)

    def exit_time(self) -> Optional[float]:
        """When the exit code was written, in epoch seconds; None before that."""
        told = self._told(EXITED)
        return told[1] if told else None

    def _told(self, name: str) -> Optional[Tuple[str, float]]:
        """Content and time of a file that the wrapper wrote; None if there is none that can be read."""
        try:
            with open_file(Below(self.directory, (name,))) as handle:
                text = handle.read(NUMBER_BYTES).decode("utf-8", "replace").strip()
                return text, os.fstat(handle.fileno()).st_mtime
        except OSError:
            return None

    def take_exit(self, when: float, *, after_failure: bool) -> None:
        """Record the end; ranks that torchrun ended after another one failed count as stopped."""
        text = (self._told(EXITED) or ("", 0.0))[0]
        code = _number(text)
        code = None if code is None or code > MAX_EXIT_CODE else code
        signum = signal_in(code)
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


def _number(text: str) -> Optional[int]:
    return int(text) if text.isascii() and text.isdigit() else None


def _read(path: Path, num_bytes: int) -> str:
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
