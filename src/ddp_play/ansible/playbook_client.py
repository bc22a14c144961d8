"""Program in the place of ansible-playbook: lets a session run the playbook, or becomes the real ansible-playbook.

ansible-runner starts it: `playbook_client SOCKET ARGUMENTS...`. It passes arguments, environment, directory and
descriptors to the session, signals to the process that runs the playbook, and ends as that process ends.
Standard library only: it starts in a few hundredths of a second.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import sys
import termios
from typing import TYPE_CHECKING, Any

from ddp_play.ansible.callers_process import CallersProcess
from ddp_play.ansible.descriptor_messages import connect, receive, send

if TYPE_CHECKING:
    import socket

PROGRAM = "ansible-playbook"
ANSWER_S = 3.0
# The session may have to import Ansible and to read the inventory first.
START_S = 120.0
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> None:
    """Run the playbook in the session; without one, run it as if this program did not exist."""
    place, *arguments = sys.argv[1:]
    first, _, rest = os.environ.get("PATH", "").partition(os.pathsep)
    if first == os.path.dirname(place):  # noqa: PTH120
        os.environ["PATH"] = rest  # where the real ansible-playbook is
    connection = _started(place, arguments)
    if connection is None:
        os.execvp(PROGRAM, [PROGRAM, *arguments])  # noqa: S606
    _end_like(_follow(connection))


def _started(place: str, arguments: list[str]) -> socket.socket | None:
    """A connection to the process that runs the playbook; None if the session does not run it."""
    try:
        connection = connect(place, ANSWER_S)
    except OSError:
        return None
    try:
        request = {"order": "playbook", "argv": [PROGRAM, *arguments], "process": CallersProcess.this().to_json()}
        send(connection, request, (0, 1, 2))
        _expect(connection, "accepted")
        connection.settimeout(START_S)
        _expect(connection, "pid")
        _give_terminal()
        send(connection, {"go": True})
    except (OSError, EOFError, ValueError, TypeError):
        connection.close()  # a process that is there already has had no `go`: it ends
        return None
    return connection


def _expect(connection: socket.socket, name: str) -> None:
    if not receive(connection)[0].get(name):
        raise EOFError("it was refused")


def _give_terminal() -> None:
    """Leave the controlling terminal to the process that runs the playbook."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with contextlib.suppress(OSError), open("/dev/tty", "rb", buffering=0) as terminal:  # noqa: PTH123
        fcntl.ioctl(terminal, termios.TIOCNOTTY)
    signal.signal(signal.SIGHUP, before)


def _follow(connection: socket.socket) -> int:
    """Wait for the end. Returns the exit code, or minus the number of the signal that ended it."""
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.set_wakeup_fd(woken)
    for number in FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda _number, _frame: None)
    connection.settimeout(None)
    while True:
        ready, _, _ = select.select([connection.fileno(), wake], [], [])
        if wake in ready:
            for sent in os.read(wake, 64):
                with contextlib.suppress(OSError):
                    send(connection, {"signal": sent})
        if connection.fileno() in ready:
            return _end(connection)


def _end(connection: socket.socket) -> int:
    try:
        message: dict[str, Any] = receive(connection)[0]
        return int(message["code"])
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return -int(signal.SIGKILL)


def _end_like(code: int) -> None:
    if code < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code if code >= 0 else 128 - code)
