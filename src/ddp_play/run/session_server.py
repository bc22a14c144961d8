"""A session: a process with everything imported that starts runs and their playbooks by fork, until it is idle.

A run that a session starts is the same processes with the same code as a run without one. Once they are started they do
not depend on the session: it can end or be killed at any time.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ddp_play.ansible import inventory_signature, runner
from ddp_play.ansible.callers_process import CallersProcess
from ddp_play.ansible.descriptor_messages import check_peer, listen, receive, send
from ddp_play.ansible.plugin_variables import RUN_DIR_ENV
from ddp_play.ansible.warm_processes import WarmProcess, imported
from ddp_play.bundle.paths import make_directory
from ddp_play.errors import Busy
from ddp_play.run import session_children, session_place

if TYPE_CHECKING:
    from collections.abc import Callable

    from ddp_play.ansible.runner import PlaybookRequest
    from ddp_play.run.session_place import SessionPlace

READ_S = 3.0
TICK_S = 1.0
# That come with an order; fewer where this process has too many open.
DESCRIPTORS = {"run": 2, "playbook": 3}
# Environments that have an Ansible of their own at the same time.
MOST_WARM = 3


@dataclass
class _Child:
    name: str
    is_run: bool


class Session:
    """The session of one inventory."""

    def __init__(
        self, request: PlaybookRequest, place: SessionPlace, *, idle_s: float, say: Callable[[str], None]
    ) -> None:
        """`say`: prints one line. `idle_s`: it ends when it had no run for so long."""
        self._request, self._place, self._idle_s, self._say = request, place, idle_s, say
        self._warm: dict[str, WarmProcess] = {}
        self._children: dict[int, _Child] = {}
        self._build = session_place.build()
        self._used = time.monotonic()
        self._ending = ""
        self._settled = False  # has the warm-up ended?
        self._programs = ""  # until a playbook has gone through it
        self._open: list[socket.socket | IO[Any]] = []

    def serve(self) -> None:
        """Serve until it is ended or idle. Busy if this inventory has a session."""
        make_directory(self._place.root)
        self._place.root.chmod(0o700)
        self._lock = self._locked()
        self._open.append(self._lock)
        runner.import_now()
        session_children.write_program(self._place)
        listening = self._listen()
        wake = self._wake_on_signals()
        self._warm_up()
        try:
            while not self._ending:
                ready, _, _ = select.select([listening, wake], [], [], TICK_S)
                if wake in ready:
                    self._heed(wake)
                if listening in ready:
                    self._accept(listening)
                self._reap()
                if not self._children and time.monotonic() - self._used > self._idle_s:
                    self._ending = "no run for a long time"
        finally:
            self._end()

    # -- begin and end -------------------------------------------------------------------------------
    def _locked(self) -> IO[Any]:
        try:
            return self._place.take()
        except BlockingIOError:
            raise Busy(
                "this inventory has a session already", hint="ddp-play session -i INVENTORY --end ends it"
            ) from None

    def _listen(self) -> socket.socket:
        """The socket appears in its place when it listens."""
        new = self._place.address.with_name("socket.new")
        new.unlink(missing_ok=True)
        listening = listen(str(new))
        new.replace(self._place.address)
        self._open.append(listening)
        return listening

    def _wake_on_signals(self) -> socket.socket:
        wake, woken = socket.socketpair()
        wake.setblocking(False)
        woken.setblocking(False)
        signal.set_wakeup_fd(woken.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup leaves it
                signal.signal(number, lambda _number, _frame: None)
        self._open += [wake, woken]
        return wake

    def _heed(self, wake: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError):
            numbers = set(wake.recv(256)) - {signal.SIGCHLD}
            if numbers:
                self._ending = f"by {signal.Signals(min(numbers)).name}"

    def _end(self) -> None:
        """The runs go on; a program that finds no socket does without the session."""
        self._place.address.unlink(missing_ok=True)
        for warm in self._warm.values():
            warm.close()
        names = [child.name for child in self._children.values() if child.is_run]
        rest = f"; {', '.join(names)} continue without it" if names else ""
        self._say(f"session ended {self._ending}{rest}")
        self._lock.close()  # another one may start while this process ends

    def _leave(self) -> None:
        """In a forked process: close what is the session's."""
        signal.set_wakeup_fd(-1)
        for warm in self._warm.values():
            warm.close()
        for one in self._open:
            one.close()

    # -- requests ------------------------------------------------------------------------------------
    def _accept(self, listening: socket.socket) -> None:
        descriptors: list[int] = []
        try:
            connection, _ = listening.accept()
        except OSError as error:  # too many open files
            self._say(f"a request was not accepted: {error!r}")
            time.sleep(TICK_S)
            return
        try:
            connection.settimeout(READ_S)
            check_peer(connection)
            request, descriptors = receive(connection)
            self._obey(connection, request, descriptors)
        except (OSError, EOFError, ValueError, TypeError, LookupError) as error:
            self._say(f"a request was refused: {error!r}")
        finally:
            for fd in descriptors:
                os.close(fd)
            connection.close()

    def _obey(self, connection: socket.socket, request: dict[str, Any], descriptors: list[int]) -> None:
        order = request.get("order")
        if len(descriptors) != DESCRIPTORS.get(str(order), 0):
            raise ValueError(f"{len(descriptors)} descriptors came with it")
        if order == "run":
            self._start_run(connection, request, descriptors)
        elif order == "playbook":
            self._pass_playbook(connection, request, descriptors)
        elif order == "refresh":
            self._refresh()
            send(connection, self._status())
        else:
            if order == "end":
                self._ending = "as requested"
            send(connection, self._status())

    def _status(self) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "ready": bool(self._programs),
            "settled": self._settled,
            "runs": self._running(),
            "unused_s": 0.0 if self._children else round(time.monotonic() - self._used, 1),
            "idle_s": self._idle_s,
        }

    def _refresh(self) -> None:
        for warm in self._warm.values():
            warm.close()
        self._warm = {}
        self._warm_up()

    def _start_run(self, connection: socket.socket, request: dict[str, Any], descriptors: list[int]) -> None:
        refused = self._why_not(request)
        name = Path(request["run_dir"]).name
        if refused:
            self._say(f"run {name} goes without the session: {refused}")
            send(connection, {"refused": refused})
            return
        programs, session = self._programs, os.getpid()
        pid = self._fork(lambda: session_children.run(connection, request, descriptors, programs, session))
        self._children[pid] = _Child(name, True)
        self._say(f"run {name} started")

    def _why_not(self, request: dict[str, Any]) -> str:
        if request.get("build") != self._build or session_place.build() != self._build:
            return "ddp-play, Ansible or Python's settings changed since it was started; end it and start it again"
        return CallersProcess.from_json(request["process"]).why_not()

    def _pass_playbook(self, connection: socket.socket, request: dict[str, Any], descriptors: list[int]) -> None:
        if refused := CallersProcess.from_json(request["process"]).why_not():
            raise ValueError(refused)  # the program that asks runs the playbook itself
        key = self._key(request)
        fds = [connection.fileno(), *descriptors]
        send(connection, {"accepted": True})

        def leave() -> None:
            self._leave()
            for fd in fds:
                os.close(fd)  # else a terminal would stay open after its playbook

        for _ in range(2):
            warm = self._warm.pop(key, None) or imported(request, leave)
            self._warm[key] = warm  # the one that was used last is the last one
            if warm.pass_on(request, fds):
                break
            self._warm.pop(key).close()
        while len(self._warm) > MOST_WARM:
            self._warm.pop(next(iter(self._warm))).close()
        self._used = time.monotonic()
        if run_dir := request["process"]["environment"].get(RUN_DIR_ENV):
            self._say(f"playbook of run {Path(run_dir).name} started")

    def _key(self, request: dict[str, Any]) -> str:
        sources = inventory_signature.sources_of(request["argv"])
        process = request["process"]
        static = inventory_signature.is_static(sources)
        environment = inventory_signature.relevant(process["environment"], static=static)
        configuration = inventory_signature.configuration_stamp(process["environment"], process["cwd"])
        return repr((sources, process["cwd"], configuration, sorted(environment.items())))

    # -- processes -----------------------------------------------------------------------------------
    def _fork(self, act: Callable[[], None]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid:
            return pid
        try:
            self._leave()
            act()
        except BaseException:  # noqa: BLE001 - it must not return into the session's code
            traceback.print_exc()
        finally:
            os._exit(0)

    def _warm_up(self) -> None:
        self._programs, self._settled = "", False
        request, programs = self._request, str(self._place.root)
        pid = self._fork(lambda: session_children.warm_up(request, programs))
        self._children[pid] = _Child("warm-up", False)

    def _running(self) -> list[str]:
        return [child.name for child in self._children.values() if child.is_run]

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            child = self._children.pop(pid, None)
            if child is not None:
                self._ended(child, os.waitstatus_to_exitcode(status))

    def _ended(self, child: _Child, code: int) -> None:
        self._used = time.monotonic()
        if child.is_run:
            self._say(f"run {child.name} ended")
            return
        self._settled = True
        if code == 0:
            self._programs = str(self._place.root)
            self._say("ready")
        else:
            self._say(
                "Ansible is not kept ready: a playbook without tasks failed on this inventory, or needs a password"
            )
