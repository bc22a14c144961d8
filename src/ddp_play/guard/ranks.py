"""Ranks of a guard, as a plain process or as a container, with the same interface."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import docker_socket, hang_evidence, kernel_log, processes, rank_failure, rank_user, secret_files

if TYPE_CHECKING:
    from .run_directory import HostRun

# After a container's process has ended: how long to ask an engine that does not answer for the exit code.
ENGINE_PATIENCE_S = 3.0


class Rank:
    """One rank; `row` is its part of the guard's state, as the controller reads it."""

    def __init__(self, spec: Dict[str, Any], place: HostRun) -> None:
        self.spec = spec
        self.number = int(spec["rank"])
        self.place = place
        self.log = place.log(self.number)
        self.signalled = False
        self.witness: Optional[kernel_log.Witness] = None
        self.row: Dict[str, Any] = {
            "state": "created",
            "pid": None,
            "ticks": None,
            "container": spec.get("container"),
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

    def poll(self) -> None:
        """Record the end of the rank if it has ended."""
        raise NotImplementedError

    def send(self, signum: int) -> None:
        """Signal the rank to end; its end then counts as stopped by the guard."""
        if not self.running:
            return
        self.signalled = True
        pid, ticks = self.row["pid"], self.row["ticks"]
        if signum == signal.SIGABRT and pid and hang_evidence.request_stacks(pid, ticks):
            return
        self.deliver(signum)
        if signum != signal.SIGKILL:
            self.deliver(signal.SIGCONT)  # a frozen process handles no signal

    def deliver(self, signum: int) -> None:
        """Send a signal to the rank's process."""
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
        with open(str(self.log), "ab") as log:
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
            with open(str(self.log), "ab", buffering=0) as log:
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
            self.say("cannot start %s: %s" % (spec["argv"][0], error))
            self.ended(code, detail="cannot start: %s" % error)
            return
        child.returncode = 0  # reaped by the guard, not by Popen
        self._mark_running(child.pid)

    def _secrets(self) -> Dict[str, str]:
        """Environment variables whose values are kept in memory only. Raises OSError."""
        return {name: secret_files.read(self.place.secrets, name) for name in self.spec.get("secret_env", ())}

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
        processes.signal_exactly(self.row["pid"], self.row["ticks"], signum, group=True)

    def warn(self, signum: int) -> None:
        """Send a signal to the first process only, not to its group."""
        processes.signal_exactly(self.row["pid"], self.row["ticks"], signum)


class ContainerRank(Rank):
    """A rank as a container, watched by its first process, so that it survives a restart of the engine."""

    def __init__(self, spec: Dict[str, Any], place: HostRun) -> None:
        super().__init__(spec, place)
        self._gone_since: Optional[float] = None

    def start(self) -> None:
        """Start the container; exit code 125 to 127 if that fails."""
        code, words = docker_socket.start(self.spec["container"])
        if code:
            self.say("the container does not start: %s" % words)
            self.ended(code, detail="container does not start: %s" % words)
            return
        state = self._inspect()
        if state and state.get("Pid"):
            self._mark_running(int(state["Pid"]))
        else:  # it ended before `inspect`
            self.row.update(state="running", started=time.time())
            self.poll()

    def poll(self) -> None:
        """Record the end with the exit code of the engine, once the first process has ended."""
        pid, ticks = self.row["pid"], self.row["ticks"]
        if not self.running or (pid and processes.alive(pid, ticks)):
            return
        if self._gone_since is None:
            self._gone_since = time.monotonic()
        try:
            document = docker_socket.inspect(self.spec["container"])
        except docker_socket.EngineError as error:
            self._on_engine_error(error)
            return
        self._take_engine_state(document.get("State") or {})

    def _take_engine_state(self, state: Dict[str, Any]) -> None:
        if state.get("Running") and self._may_wait():
            return  # the engine has not recorded the end yet
        code = int(state.get("ExitCode", 0))
        self.row["oom"] = bool(state.get("OOMKilled"))
        tail = docker_socket.logs_tail(self.spec["container"]).decode("utf-8", "replace").strip()
        if tail:
            self.say("output of the container outside the rank's log:\n%s" % tail)
        # 128+N is how the container's init reports a signal
        self.ended(code, signum=code - 128 if 128 < code <= 192 else None, detail=state.get("Error") or "")

    def _on_engine_error(self, error: docker_socket.EngineError) -> None:
        if error.status == 404:
            self.ended(None, detail="the container was removed from outside")
        elif not self._may_wait():
            self.ended(None, detail="its process is gone and the engine cannot tell its exit code: %s" % error)

    def _may_wait(self) -> bool:
        return time.monotonic() - (self._gone_since or 0.0) < ENGINE_PATIENCE_S

    def _inspect(self) -> Optional[Dict[str, Any]]:
        try:
            return dict(docker_socket.inspect(self.spec["container"]).get("State") or {})
        except docker_socket.EngineError:
            return None

    def deliver(self, signum: int) -> None:
        """Signal the first process, through the engine if this user may not."""
        pid, ticks = self.row["pid"], self.row["ticks"]
        try:
            if pid and processes.signal_exactly(pid, ticks, signum):
                return
        except PermissionError:
            pass  # a process of another user: only the engine may signal it
        with contextlib.suppress(docker_socket.EngineError):
            docker_socket.kill(self.spec["container"], signal.Signals(signum).name)


def make(spec: Dict[str, Any], place: HostRun) -> Rank:
    """Rank object for one entry of the host's spec."""
    return ContainerRank(spec, place) if spec.get("container") else ProcessRank(spec, place)


def reap(ranks: List[Rank]) -> None:
    """Collect the wait status of every ended child: ranks and processes that they forked."""
    by_pid = {rank.row["pid"]: rank for rank in ranks if rank.running}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        rank = by_pid.get(pid)
        if isinstance(rank, ProcessRank):
            rank.reaped(status)
