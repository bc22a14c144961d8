"""Processes of a session that wait for a playbook: one with Ansible imported, and a child of it with the inventory.

    session ─► imported ─► with the inventory ─► monitor ─► the playbook
                    └───── (the inventory is read by the playbook) ─► monitor ─► the playbook

Each is forked from the one before it, so a playbook begins where its import and its reading of the inventory would have
ended. A changed inventory gets a new second process, another environment a new first one.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import os
import select
import signal
import socket
import sys
import termios
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddp_play.ansible import inventory_signature, warm_playbook
from ddp_play.ansible.callers_process import CallersProcess, set_name, use_as_standard
from ddp_play.ansible.descriptor_messages import receive, send
from ddp_play.ansible.left_workers import workers_of
from ddp_play.ansible.plugin_variables import RUN_DIR_ENV
from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.run_locks import is_locked

if TYPE_CHECKING:
    from collections.abc import Callable

# Until the program that requested a playbook says `go`.
GO_S = 120.0
SEND_S = 1.0
POLL_S = 0.05
PR_SET_PDEATHSIG = 1  # prctl(2)


class WarmProcess:
    """A forked process that gets requests, each with descriptors, and ends when this end is closed."""

    def __init__(self, serve: Callable[[socket.socket], None], *, name: str) -> None:
        """`serve` runs in the process, with its end of the connection."""
        self.control, theirs = socket.socketpair()
        self.control.settimeout(SEND_S)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid:
            theirs.close()
            return
        try:
            self.control.close()
            atexit._clear()  # what the parent made is the parent's
            os.setsid()
            set_name(name)
            serve(theirs)
        except (EOFError, ConnectionError):
            pass  # the session is over
        except BaseException:  # noqa: BLE001 - whatever it is: this process must not return into the session's code
            traceback.print_exc()
        finally:
            atexit._run_exitfuncs()  # Ansible's directory for temporary files
            os._exit(0)

    def pass_on(self, request: dict[str, Any], descriptors: list[int]) -> bool:
        """Pass a request on. False if the process is gone or busy."""
        try:
            send(self.control, request, descriptors)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let it end; playbooks that it has started go on."""
        self.control.close()


def imported(request: dict[str, Any], leave: Callable[[], None]) -> WarmProcess:
    """A process with Ansible imported in the request's environment. `leave` closes what is the session's in it."""

    def serve(control: socket.socket) -> None:
        leave()
        null = os.open(os.devnull, os.O_RDWR)
        use_as_standard(null, os.dup(null), os.dup(null))
        CallersProcess.from_json(request["process"]).enter(limits=False)
        _add_python_path(os.environ.get("PYTHONPATH", ""))
        if warm_playbook.import_ansible():
            _serve_imported(control, warm_playbook.inventories(request["argv"]))

    return WarmProcess(serve, name="ddp-play ansible")


def _add_python_path(value: str) -> None:
    """Directories of PYTHONPATH, where Python puts them at its start."""
    new = [path for path in value.split(os.pathsep) if path and path not in sys.path]
    sys.path[1:1] = new


def _serve_imported(control: socket.socket, sources: list[str]) -> None:
    """Pass each request on to the process with the inventory, a new one if the inventory's files have changed."""
    seen: object = object()
    reader: WarmProcess | None = None
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
    while True:
        request, descriptors = receive(control)
        files = inventory_signature.signature(sources)
        found = None if files is None else (files, warm_playbook.collections())
        if found is None or found != seen:
            if reader is not None:
                reader.close()
            reader, seen = _reader(control, sources, descriptors) if found is not None else None, found
        own = inventory_signature.brings_plugins(request["argv"])
        if own or reader is None or not reader.pass_on(request, descriptors):
            _fork_playbook(request, descriptors, None, [control, *([reader.control] if reader else [])])
        for fd in descriptors:
            os.close(fd)


def _reader(control: socket.socket, sources: list[str], unneeded: list[int]) -> WarmProcess | None:
    """A process that has read the inventory; None if a playbook must read it itself."""

    def serve(mine: socket.socket) -> None:
        control.close()
        for fd in unneeded:
            os.close(fd)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        inventory = warm_playbook.read_inventory(sources, static=inventory_signature.is_static(sources))
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        send(mine, {"usable": inventory is not None})
        while inventory is not None:
            request, descriptors = receive(mine)
            _fork_playbook(request, descriptors, inventory, [mine])
            for fd in descriptors:
                os.close(fd)

    process = WarmProcess(serve, name="ddp-play invent.")
    process.control.settimeout(GO_S)
    try:
        if receive(process.control)[0]["usable"]:
            process.control.settimeout(SEND_S)
            return process
    except (OSError, EOFError, ValueError, LookupError):
        with contextlib.suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)
    process.close()
    return None


def _fork_playbook(
    request: dict[str, Any],
    descriptors: list[int],
    inventory: warm_playbook.Inventory | None,
    unneeded: list[socket.socket],
) -> None:
    """Start the process that runs one playbook and watches over it. `descriptors`: connection and standard ones."""
    if os.fork():
        return
    try:
        for control in unneeded:
            control.close()
        os.setsid()
        CallersProcess.from_json(request["process"]).enter()
        set_name("ddp-play watch")
        _monitor(socket.socket(fileno=descriptors[0]), request["argv"], descriptors[1:], inventory)
    except (OSError, EOFError):
        pass  # who requested the playbook is gone
    finally:
        os._exit(0)


def _monitor(
    connection: socket.socket, argv: list[str], standard: list[int], inventory: warm_playbook.Inventory | None
) -> None:
    """Run the playbook for the program at the other end, as its child: its signals, its death, the exit code."""
    connection.settimeout(GO_S)
    send(connection, {"pid": os.getpid()})
    receive(connection)  # without `go` it runs the playbook itself
    connection.settimeout(None)
    monitor = os.getpid()
    child = os.fork()
    if not child:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != monitor:
            os._exit(1)
        _become_playbook(connection, argv, standard, inventory)
    for fd in standard:
        os.close(fd)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    send(connection, {"code": _watch(connection, child)})


def _become_playbook(
    connection: socket.socket, argv: list[str], standard: list[int], inventory: warm_playbook.Inventory | None
) -> None:
    code = 1
    try:
        connection.close()
        os.setsid()
        use_as_standard(*standard)
        with contextlib.suppress(OSError):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        set_name("ansible-playbook"[:15])
        code = warm_playbook.run_playbook(argv, inventory)
    except BaseException:  # noqa: BLE001 - it must not return into the session's code
        traceback.print_exc()
    finally:
        os._exit(code)


def _watch(connection: socket.socket, child: int) -> int:
    """Exit code of the child, or minus its signal. Who requested it sends signals; with its end the child is killed."""
    ended = _end_descriptor(child)
    asking = True
    while True:
        waited = [*([connection.fileno()] if asking else []), *([ended] if ended is not None else [])]
        ready, _, _ = select.select(waited, [], [], POLL_S if ended is None else None)
        if asking and connection.fileno() in ready:
            asking = _obey(connection, child)
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)


def _end_descriptor(child: int) -> int | None:
    try:
        return os.pidfd_open(child)
    except OSError:  # an old kernel
        return None


def _obey(connection: socket.socket, child: int) -> bool:
    try:
        os.kill(child, int(receive(connection)[0]["signal"]))
    except (OSError, EOFError, ValueError, LookupError):
        _kill(child)
        return False
    return True


def _kill(child: int) -> None:
    """End the playbook and its workers. One that supervises ranks goes on, as it does without a session."""
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGSTOP)  # it starts no more of them
    workers = [] if _has_supervisor() else workers_of(child)
    for end in (os.kill, os.killpg):  # just forked, it has no group of its own
        with contextlib.suppress(OSError):
            end(child, signal.SIGKILL)
    for worker in workers:
        with contextlib.suppress(OSError):
            os.kill(worker, signal.SIGKILL)


def _has_supervisor() -> bool:
    run_dir = os.environ.get(RUN_DIR_ENV, "")
    return bool(run_dir) and is_locked(RunPaths(Path(run_dir)).lock)
