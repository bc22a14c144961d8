"""Ranks that are containers, and the rank object for one entry of a host's spec.

Only the loop of the guard waits for the engine. Signals go to the first process by pid and start time; the engine is
asked, in a thread, only where this user may not signal that process.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from . import docker_socket, processes
from .apptainer_rank import ApptainerRank
from .protocol import REMOVED
from .rank_failure import signal_in
from .ranks import ProcessRank, Rank

if TYPE_CHECKING:
    from .run_directory import HostRun

# Time limit for the engine to report the exit code after the process has ended, if it refuses requests or the ranks are
# being stopped.
ENGINE_PATIENCE_S = 3.0
# The same limit otherwise.
SLOW_ENGINE_S = 10.0
# Shortest time limit of one request, after other ranks have used up the rest.
LAST_QUESTION_S = 0.1
# Interval between searches for a process that starts late.
REMOVE_S = 0.5
START_POLL_S = 0.05


class _Start(threading.Thread):
    """One request to start a container. `outcome`: exit code and message of `docker_socket.start`; None: no answer."""

    def __init__(self, container: str) -> None:
        super().__init__(name="start", daemon=True)
        self._container = container
        self.outcome: Optional[Tuple[int, str]] = None
        self.problem = "the engine has not answered yet"

    def run(self) -> None:
        """Ask the engine."""
        try:
            self.outcome = docker_socket.start(self._container)
        except docker_socket.EngineError as error:
            self.problem = str(error)


class ContainerRank(Rank):
    """A rank as a container, watched by its first process, so that it survives a restart of the engine."""

    def __init__(self, spec: Dict[str, Any], place: HostRun) -> None:
        super().__init__(spec, place)
        self._gone_since: Optional[float] = None
        self._unanswered = False
        self._killing: Optional[threading.Thread] = None
        self._for_engine: queue.SimpleQueue[int] = queue.SimpleQueue()

    def start(self) -> None:
        """Start the container; exit code 125 to 127 if that fails. An order to stop ends the waiting for the engine."""
        request = _Start(self.spec["container"])
        request.start()
        while request.is_alive() and not self.must_stop():
            request.join(START_POLL_S)
        if request.outcome is None:
            self._start_unanswered(request)
            return
        code, words = request.outcome
        if code:
            self.say("the container does not start: %s" % words)
            self.ended(code, detail="container does not start: %s" % words)
            return
        state = self._inspect()
        pid = int((state or {}).get("Pid") or 0) or (self._find_process() if state is None else None)
        if pid:
            self._mark_running(pid)
        else:  # it ended before `inspect`
            self.row.update(state="running", started=time.time())
            self.poll()

    def _start_unanswered(self, request: _Start) -> None:
        """Count as ended, and remember that the container may start after all."""
        self._unanswered = True
        detail = "the engine did not answer the request to start the container: %s" % request.problem
        self.say(detail)
        if self.must_stop():
            self.not_started(detail)
        else:
            self.ended(125, detail=detail)

    @property
    def may_start_late(self) -> bool:
        """Whether a request to start the container has had no answer."""
        return self._unanswered

    def prevent_late_start(self) -> None:
        """Kill the container if it runs, and have the engine remove it."""
        if not self._unanswered:
            return
        pid = self._find_process()
        if pid:
            with contextlib.suppress(PermissionError):
                processes.signal_exactly(pid, processes.start_ticks(pid), signal.SIGKILL)
        with contextlib.suppress(docker_socket.EngineError):
            docker_socket.remove(self.spec["container"], REMOVE_S)
            self._unanswered = False

    def _find_process(self) -> Optional[int]:
        """First process of the container according to the kernel."""
        return processes.first_in_container(self.spec.get("container_id") or "")

    def look(self) -> None:
        """Record when its process ended: the time limit of the engine starts then."""
        if self.running and self._gone_since is None and not self._lives():
            self._gone_since = time.monotonic()

    def _lives(self) -> bool:
        pid = self.row["pid"]
        return bool(pid and processes.alive(pid, self.row["ticks"]))

    def poll(self) -> None:
        """Record the end with the exit code of the engine, once the first process has ended."""
        if self.running and not self.row["pid"] and (pid := self._find_process()):
            self._mark_running(pid)
            self._gone_since = None
        self.look()
        if not self.running or self._gone_since is None:
            return
        try:
            document = docker_socket.inspect(self.spec["container"], self._question_s())
        except docker_socket.EngineError as error:
            self._on_engine_error(error)
            return
        self._take_engine_state(document.get("State") or {})

    def _question_s(self) -> float:
        return max(LAST_QUESTION_S, self._patience_left_s())

    def _patience_left_s(self) -> float:
        patience_s = ENGINE_PATIENCE_S if self.signalled else SLOW_ENGINE_S
        return (self._gone_since or 0.0) + patience_s - time.monotonic()

    def _take_engine_state(self, state: Dict[str, Any]) -> None:
        if state.get("Running"):
            self._on_running(int(state.get("Pid") or 0))
            return
        told = state.get("ExitCode")
        code = None if told is None else int(told)  # without one it is not known as a success
        self.row["oom"] = bool(state.get("OOMKilled"))
        tail = docker_socket.logs_tail(self.spec["container"]).decode("utf-8", "replace").strip()
        if tail:
            self.say("output of the container outside the rank's log:\n%s" % tail)
        unknown = "its process has ended, and the engine reported no exit code" if code is None else ""
        self.ended(code, signum=signal_in(code), detail=state.get("Error") or unknown)

    def _on_running(self, pid: int) -> None:
        """Watch the engine's process if none was found; else wait: the engine has not recorded the end and its code."""
        if not self.row["pid"] and pid and processes.alive(pid, None):
            self._mark_running(pid)
            self._gone_since = None
        elif self._patience_left_s() <= 0:
            self.ended(None, detail="its process has ended, but the engine still reports it as running")

    def _on_engine_error(self, error: docker_socket.EngineError) -> None:
        if error.status == 404:
            code = docker_socket.exit_code_of_removed(
                self.spec["container"], float(self.row["started"] or 0), self._question_s()
            )
            self.ended(code, signum=signal_in(code), detail="the container was %s" % REMOVED)
        elif not self._may_wait():
            self.ended(None, detail="its process has ended, and the engine did not report the exit code: %s" % error)

    def _may_wait(self) -> bool:
        return time.monotonic() - (self._gone_since or 0.0) < ENGINE_PATIENCE_S

    def _inspect(self) -> Optional[Dict[str, Any]]:
        try:
            return dict(docker_socket.inspect(self.spec["container"], ENGINE_PATIENCE_S).get("State") or {})
        except docker_socket.EngineError:
            return None

    def deliver(self, signum: int) -> None:
        """Signal the first process, through the engine if this user may not; never waits for the engine."""
        pid, ticks = self.row["pid"], self.row["ticks"]
        try:
            if pid and processes.signal_exactly(pid, ticks, signum):
                return
        except PermissionError:
            pass  # a process of another user: only the engine may signal it
        self._for_engine.put(signum)
        if self._killing is None:
            self._killing = threading.Thread(target=self._kill_through_engine, name="kill", daemon=True)
            self._killing.start()

    def _kill_through_engine(self) -> None:
        while True:
            name = signal.Signals(self._for_engine.get()).name
            with contextlib.suppress(docker_socket.EngineError):
                docker_socket.kill(self.spec["container"], name)


def make(spec: Dict[str, Any], place: HostRun) -> Rank:
    """Rank object for one entry of the host's spec."""
    if spec.get("num_image_words"):
        return ApptainerRank(spec, place)
    return ContainerRank(spec, place) if spec.get("container") else ProcessRank(spec, place)
