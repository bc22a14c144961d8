"""Ranks of a guard: what all have in common, and ranks that are plain processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

from . import hang_evidence, kernel_log, processes, rank_failure, rank_user, secret_files, start_problem

if TYPE_CHECKING:
    from .run_directory import HostRun

# Held while a child is signalled or its wait status is collected: a collected pid may belong to another process.
CHILDREN = threading.Lock()


class Rank:
    """One rank; `row` is its part of the guard's state, as the controller reads it."""

    def __init__(self, spec: Dict[str, Any], place: HostRun) -> None:
        self.spec = spec
        self.number = int(spec["rank"])
        self.place = place
        self.log = place.log(self.number)
        self.signalled = False
        self.must_stop: Callable[[], bool] = lambda: False  # whether the guard has begun to stop its ranks
        self.witness: Optional[kernel_log.Witness] = None
        self.row: Dict[str, Any] = {
            "state": "created",
            "pid": None,
            "ticks": None,
            "container": spec.get("container"),
            "by_apptainer": bool(spec.get("num_image_words")),
            "started": None,
            "ended": None,
            "exit_code": None,
            "signal": None,
            "oom": False,
            "stopped": False,
            "detail": "",
            "kernel": [],
        }

    @property
    def running(self) -> bool:
        """Whether it has been started and has not ended."""
        return bool(self.row["state"] == "running")

    @property
    def failed(self) -> bool:
        """Whether it ended with an error and was not stopped by the guard."""
        return rank_failure.rank_failed(self.row["state"], self.row["exit_code"], stopped=self.row["stopped"])

    def start(self) -> None:
        """Start the rank; a failure to start is recorded as exit code 125 to 127."""
        raise NotImplementedError

    def not_started(self, why: str) -> None:
        """Record an end without a start, because the ranks are being stopped."""
        self.signalled = True
        self.ended(None, detail=why)

    def look(self) -> None:
        """Note, without asking the engine, whether its process has ended."""

    def poll(self) -> None:
        """Record the end of the rank if it has ended."""
        raise NotImplementedError

    @property
    def may_start_late(self) -> bool:
        """Whether it counts as ended, and the engine may still carry out an unanswered request to start it."""
        return False

    def prevent_late_start(self) -> None:
        """Remove it, and kill it if it has started, while `may_start_late`."""

    def send(self, signum: int) -> None:
        """Signal the rank to end, without waiting; its end then counts as stopped by the guard."""
        if not self.running:
            return
        self.signalled = True
        if signum == signal.SIGABRT and self.row["pid"]:  # reads files of the process, which may block
            threading.Thread(target=self._request_stacks, daemon=True).start()
        else:
            self._end(signum)

    def _request_stacks(self) -> None:
        if not hang_evidence.request_stacks(self.row["pid"], self.row["ticks"]):
            self._end(signal.SIGABRT)

    def _end(self, signum: int) -> None:
        self.deliver(signum)
        if signum != signal.SIGKILL:
            self.deliver(signal.SIGCONT)  # a frozen process handles no signal

    def deliver(self, signum: int) -> None:
        """Send a signal to the rank's process, without waiting."""
        raise NotImplementedError

    def warn(self, signum: int) -> None:
        """Send a signal to its first process only; if the rank ends, that counts as its own end."""
        self.deliver(signum)

    def _mark_running(self, pid: int) -> None:
        self.row.update(state="running", pid=pid, ticks=processes.start_ticks(pid), started=time.time())
        self.witness = kernel_log.Witness(pid)

    def ended(self, exit_code: Optional[int], *, signum: Optional[int] = None, detail: str = "") -> None:
        """Record the end; `exit_code` None: unknown."""
        self.row.update(
            state="exited",
            ended=time.time(),
            exit_code=exit_code,
            signal=signum,
            stopped=self.signalled,
            detail=detail or self.row["detail"],
        )
        if not self.row["started"]:
            self.row["started"] = self.row["ended"]

    def say(self, text: str) -> None:
        """Append a line of ddp-play to the rank's log, for failures before the rank could print."""
        with contextlib.suppress(OSError), open(str(self.log), "ab") as log:
            log.write(("ddp-play: %s\n" % text).encode())


class ProcessRank(Rank):
    """A rank as a plain process, leader of its own session."""

    def start(self) -> None:
        """Start the process with its log as output; exit code 126 or 127 if that fails."""
        spec = self.spec
        try:
            env = {**spec["env"], **self._secrets()}
        except OSError as error:
            self.say("cannot read a secret of this rank: %s" % error)
            self.ended(126, detail="cannot read a secret of this rank: %s" % error)
            return
        try:
            with open(str(self.log), "ab", buffering=0) as log, _bound(spec):
                child = subprocess.Popen(
                    spec["argv"],
                    cwd=spec["workdir"],
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    **rank_user.process_options(spec.get("user")),
                )
        except (OSError, subprocess.SubprocessError) as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            why = start_problem.words(spec["argv"], spec["workdir"], error)
            self.say("cannot start %s: %s" % (spec["argv"][0], why))
            self.ended(code, detail="cannot start: %s" % why)
            return
        child.returncode = 0  # reaped by the guard, not by Popen
        self._mark_running(child.pid)

    def _secrets(self) -> Dict[str, str]:
        """Environment variables whose values are kept in memory only. Raises OSError."""
        prefix = self.spec.get("secret_prefix", "")
        return {prefix + name: secret_files.read(self.place.secrets, name) for name in self.spec.get("secret_env", ())}

    def poll(self) -> None:
        """Nothing to do: the guard waits for any child and calls `reaped`."""

    def reaped(self, status: int) -> None:
        """Record the end from a wait status."""
        if os.WIFSIGNALED(status):
            signum = os.WTERMSIG(status)
            self.ended(128 + signum, signum=signum)
        else:
            self.ended(os.WEXITSTATUS(status))

    def deliver(self, signum: int) -> None:
        """Send a signal to the process group of the rank."""
        with CHILDREN:
            processes.signal_exactly(self.row["pid"], self.row["ticks"], signum, group=True)

    def warn(self, signum: int) -> None:
        """Send a signal to the first process only, not to its group."""
        with CHILDREN:
            processes.signal_exactly(self.row["pid"], self.row["ticks"], signum)


def _bound(spec: Dict[str, Any]) -> "contextlib.AbstractContextManager[None]":
    """The NUMA binding of a rank that is started inside it."""
    if not (spec.get("cpus") or spec.get("memory_nodes")):
        return contextlib.nullcontext()
    from . import numa_binding

    return numa_binding.bound(spec.get("cpus", ""), spec.get("memory_nodes", ""))


def reap(ranks: List[Rank]) -> None:
    """Collect the wait status of every ended child: ranks and processes that they forked."""
    by_pid = {rank.row["pid"]: rank for rank in ranks if rank.running}
    while True:
        with CHILDREN:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            rank = by_pid.get(pid)
            if isinstance(rank, ProcessRank):
                rank.reaped(status)
