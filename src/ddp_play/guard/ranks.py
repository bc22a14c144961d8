"""The two kinds of rank a guard can own: a plain process and a container. Same five verbs for both."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from . import docker_socket, hang_evidence, kernel_log, proc, secretfiles

if TYPE_CHECKING:
    from .run_files import HostRun

# After the container's process is gone, how long to ask a dead engine for its exit code: its peers wait for the end.
ENGINE_PATIENCE_S = 3.0


class Rank:
    """One rank and what is known of it; `row` is what the controller sees."""

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
        """Has it been started and not ended?"""
        return bool(self.row["state"] == "running")

    @property
    def failed(self) -> bool:
        """Did it end badly, and not because we ended it?"""
        return bool(self.row["state"] == "exited" and self.row["exit_code"] != 0 and not self.row["stopped"])

    def start(self) -> None:
        """Start it; a failure to start is an end with exit code 125 to 127."""
        raise NotImplementedError

    def poll(self) -> None:
        """Notice its end."""
        raise NotImplementedError

    def send(self, signum: int) -> None:
        """Ask it to end, by exact identity: what it does from now on is our doing."""
        if not self.running:
            return
        self.signalled = True
        pid, ticks = self.row["pid"], self.row["ticks"]
        if signum == signal.SIGABRT and pid and hang_evidence.request_stacks(pid, ticks):
            return
        self.deliver(signum)
        if signum != signal.SIGKILL:
            self.deliver(signal.SIGCONT)  # a frozen process hears nothing

    def deliver(self, signum: int) -> None:
        """Hand it a signal."""
        raise NotImplementedError

    def warn(self, signum: int) -> None:
        """A signal to its first process alone that is no end: what it does then is its own doing."""
        self.deliver(signum)

    def _mark_running(self, pid: int) -> None:
        self.row.update(state="running", pid=pid, ticks=proc.start_ticks(pid), started=time.time())
        self.witness = kernel_log.Witness(pid)

    def ended(self, exit_code: Optional[int], *, signum: Optional[int] = None, detail: str = "") -> None:
        """Record the end. `exit_code` None means nobody can tell."""
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
        """A line of ours in the rank's log, for what happened before the rank could speak."""
        with open(str(self.log), "ab") as log:
            log.write(("ddp-play: %s\n" % text).encode())


class ProcessRank(Rank):
    """A rank as a plain process, leader of its own session."""

    def start(self) -> None:
        spec, user = self.spec, self.spec.get("user")
        options: Dict[str, Any] = {}
        if user and os.geteuid() == 0 and user["uid"] != 0:
            options = {"user": user["uid"], "group": user["gid"], "extra_groups": user["groups"]}
        try:
            env = {**spec["env"], **self._secrets()}
        except OSError as error:
            self.say("cannot read its secret: %s" % error)
            self.ended(126, detail="cannot read its secret: %s" % error)
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
                    **options,
                )
        except (OSError, subprocess.SubprocessError) as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            self.say("cannot start %s: %s" % (spec["argv"][0], error))
            self.ended(code, detail="cannot start: %s" % error)
            return
        child.returncode = 0  # reaped by the guard, not by Popen
        self._mark_running(child.pid)

    def _secrets(self) -> Dict[str, str]:
        """Variables whose values are on no disk of this host."""
        return {name: secretfiles.read(self.place.secrets, name) for name in self.spec.get("secret_env", ())}

    def poll(self) -> None:
        """Ends arrive through `reaped`: the guard waits for any child."""

    def reaped(self, status: int) -> None:
        """The guard collected this rank's wait status."""
        if os.WIFSIGNALED(status):
            signum = os.WTERMSIG(status)
            self.ended(128 + signum, signum=signum)
        else:
            self.ended(os.WEXITSTATUS(status))

    def deliver(self, signum: int) -> None:
        proc.signal_exactly(self.row["pid"], self.row["ticks"], signum, group=True)

    def warn(self, signum: int) -> None:
        proc.signal_exactly(self.row["pid"], self.row["ticks"], signum)


class ContainerRank(Rank):
    """A rank as a container; watched through its first process, so that a stopped engine changes nothing."""

    def __init__(self, spec: Dict[str, Any], place: HostRun) -> None:
        super().__init__(spec, place)
        self._gone_since: Optional[float] = None

    def start(self) -> None:
        code, words = docker_socket.start(self.spec["container"])
        if code:
            self.say("the container does not start: %s" % words)
            self.ended(code, detail="container does not start: %s" % words)
            return
        state = self._inspect()
        if state and state.get("Pid"):
            self._mark_running(int(state["Pid"]))
        else:  # it ended before we could look
            self.row.update(state="running", started=time.time())
            self.poll()

    def poll(self) -> None:
        pid, ticks = self.row["pid"], self.row["ticks"]
        if not self.running or (pid and proc.alive(pid, ticks)):
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
            return  # the engine has not noticed yet
        code = int(state.get("ExitCode", 0))
        self.row["oom"] = bool(state.get("OOMKilled"))
        tail = docker_socket.logs_tail(self.spec["container"]).decode("utf-8", "replace").strip()
        if tail:
            self.say("the container itself printed:\n%s" % tail)
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
        pid, ticks = self.row["pid"], self.row["ticks"]
        try:
            if pid and proc.signal_exactly(pid, ticks, signum):
                return
        except PermissionError:
            pass  # another user's container: only the engine may signal it
        with contextlib.suppress(docker_socket.EngineError):
            docker_socket.kill(self.spec["container"], signal.Signals(signum).name)


def make(spec: Dict[str, Any], place: HostRun) -> Rank:
    """The rank for its part of the host's spec."""
    return ContainerRank(spec, place) if spec.get("container") else ProcessRank(spec, place)


def reap(ranks: List[Rank]) -> None:
    """Collect every ended child, ranks and what they forked alike."""
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
