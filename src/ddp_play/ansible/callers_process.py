"""What a process has from the one that started it: environment, directory, mask, limits, rights, signals, descriptors.

A process that is forked from a session takes all of this from the program in whose place it runs, and so behaves as
if that program had started it.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import signal
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

LIMITS = sorted(
    name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE"
)  # that is RLIMIT_NOFILE
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
# One login, terminal or multiplexer is as good as another; a job of Slurm or a `systemd-run` with limits is not.
OF_A_LOGIN = re.compile(r"/user\.slice/.*(/session-[^/]+|/(vte-spawn|tmux-spawn|app)-[^/]+)\.scope$", re.MULTILINE)
STATUS = re.compile(r"^(?:CapEff|NoNewPrivs):\s*(\w+)$", re.MULTILINE)
IGNORED_BY_CHOICE = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True, slots=True)
class CallersProcess:
    """State of the calling process. `rights`: what a process forked from another one cannot take over."""

    environment: dict[str, str]
    cwd: str
    umask: int
    limits: dict[str, tuple[int, int]]
    ignored: tuple[int, ...]
    rights: dict[str, str]

    @classmethod
    def this(cls) -> CallersProcess:
        """State of this process."""
        umask = os.umask(0o077)
        os.umask(umask)
        return cls(
            dict(os.environ),
            os.getcwd(),  # noqa: PTH109 - also where pathlib is too much to import
            umask,
            {name: resource.getrlimit(getattr(resource, name)) for name in LIMITS},
            tuple(int(number) for number in IGNORED_BY_CHOICE if signal.getsignal(number) is signal.SIG_IGN),
            _rights(),
        )

    def to_json(self) -> dict[str, Any]:
        """For a message."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CallersProcess:
        """From a message."""
        limits = {name: (int(soft), int(hard)) for name, (soft, hard) in data["limits"].items()}
        ignored, rights = tuple(data["ignored"]), dict(data["rights"])
        return cls(dict(data["environment"]), str(data["cwd"]), int(data["umask"]), limits, ignored, rights)

    def why_not(self) -> str:
        """Why a process forked from this one cannot become the caller's; empty if it can."""
        if others := [name for name, value in _rights().items() if self.rights.get(name) != value]:
            return f"its {' and '.join(others)} are not the caller's"
        lower = unequal_limits(self.limits)
        return f"its limits are lower than the caller's ({', '.join(lower)})" if lower else ""

    def enter(self, *, limits: bool = True) -> None:
        """Make this forked process one that the caller had started. A lowered limit stays for all that it forks."""
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            with contextlib.suppress(OSError, ValueError):  # the C library keeps some for itself
                signal.signal(number, signal.SIG_IGN if number in self.ignored else _default(number))
        os.environ.clear()
        os.environ.update(self.environment)
        time.tzset()
        os.umask(self.umask)
        os.chdir(self.cwd)
        for name, (soft, hard) in self.limits.items() if limits else ():
            _limit(getattr(resource, name), soft, hard)


def _rights() -> dict[str, str]:
    spaces = []
    for kind in NAMESPACES:
        with contextlib.suppress(FileNotFoundError):  # of a newer kernel
            spaces.append(os.readlink(f"/proc/self/ns/{kind}"))  # noqa: PTH115
    return {
        "user and groups": str((os.getresuid(), os.getresgid(), sorted(os.getgroups()))),
        "namespaces": str(spaces),
        "CPUs": str(sorted(os.sched_getaffinity(0))),
        "nice values": str(os.getpriority(os.PRIO_PROCESS, 0)),
        "capabilities": str(STATUS.findall(_about_this("status"))),
        "control groups": OF_A_LOGIN.sub("/login", _about_this("cgroup")),
    }


def _about_this(name: str) -> str:
    """A file of /proc about this process; empty where there is none."""
    try:
        with open("/proc/self/" + name, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def _default(number: int) -> Any:
    """What a started Python has for a signal."""
    own: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGPIPE: signal.SIG_IGN}
    return own.get(number, signal.SIG_DFL)


def _limit(which: int, soft: int, hard: int) -> None:
    """Set a limit as far as this process may: a lower hard limit of the session cannot be raised."""
    with contextlib.suppress(OSError, ValueError):
        if resource.getrlimit(which) != (soft, hard):
            resource.setrlimit(which, (soft, hard))


def unequal_limits(limits: dict[str, tuple[int, int]]) -> list[str]:
    """Names of the limits that this process could not give to a child of it: its own hard limit is lower."""
    found = []
    for name, (_, hard) in limits.items():
        own = resource.getrlimit(getattr(resource, name))[1]
        if own != resource.RLIM_INFINITY and (hard == resource.RLIM_INFINITY or hard > own):
            found.append(name)
    return found


def use_as_standard(stdin: int, stdout: int, stderr: int) -> None:
    """Make these descriptors the process's standard input, output and error output, and close them."""
    for number, fd in enumerate((stdin, stdout, stderr)):
        os.dup2(fd, number)
    for fd in {stdin, stdout, stderr} - {0, 1, 2}:
        os.close(fd)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.BufferedReader(_raw(0, "rb")), encoding="utf-8")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _writer(1, "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _writer(2, "backslashreplace")  # type: ignore[misc]


def _raw(fd: int, mode: str) -> io.FileIO:
    return io.FileIO(fd, mode, closefd=False)


def _writer(fd: int, errors: str) -> io.TextIOWrapper:
    lines = fd == 2 or os.isatty(fd)
    return io.TextIOWrapper(io.BufferedWriter(_raw(fd, "wb")), encoding="utf-8", errors=errors, line_buffering=lines)


def set_name(name: str) -> None:
    """Name of this process in lists of processes: a forked one has the command line of its parent."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as comm:  # noqa: PTH123
        comm.write(name)
