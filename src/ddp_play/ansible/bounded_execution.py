"""Limits of time and size for what Ansible's connection plugins execute on a host."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

from ddp_play.ansible.plugin_variables import ANSWER_ENV
from ddp_play.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Facts of a host whose nvidia-smi, container engine and name service all run into their own limits: about 100 s.
ANSWER_S = 150.0
# Part of it that the program on the host has for itself; the rest is for the login.
HOST_PART = 0.8
# Removal of what runs left, which may be many files on a slow file system.
CLEAN_S = 600.0
MAX_MIB = 8  # more than the rows of 4000 attempts
READ_SIZE = 1 << 16
STDERR_TAIL = 4096
STOP_S = 1.0


class NoAnswer(BaseException):
    """A host reached a limit; `host_problems` has the remedies.

    Not an Exception: Ansible's ssh plugin would try the command again.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def answer_limit_s() -> float:
    """Seconds that a host has to answer: ANSWER_S, or the caller's DDP_PLAY_ANSWER_S."""
    given = os.environ.get(ANSWER_ENV) or str(ANSWER_S)
    try:
        limit_s = float(given)
    except ValueError:
        limit_s = 0
    if not 1 <= limit_s <= 86400:
        raise UsageError(f"{ANSWER_ENV} is {given!r}; it must be a number of seconds from 1 to 86400")
    return limit_s


@contextlib.contextmanager
def bounded(limit_s: float, *, max_bytes: int = MAX_MIB << 20) -> Iterator[None]:
    """Within this context, processes of `subprocess` end at the limits, with NoAnswer. Only for a main thread.

    Ansible executes each task of each host in a process of its own, so this affects one host.
    """
    limits = _Limits(limit_s, max_bytes)
    original = subprocess.Popen

    class Popen(_CountedPopen):
        applied = limits

    handler = signal.signal(signal.SIGALRM, limits.at_the_limit)
    began = time.monotonic()
    outer_s, _ = signal.setitimer(signal.ITIMER_REAL, limit_s)
    subprocess.Popen = Popen  # type: ignore[assignment, misc]
    try:
        yield
    except Exception:  # of a plugin that closes the pipes of an ended process
        if limits.reached is None:
            raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        subprocess.Popen = original  # type: ignore[misc]
        signal.signal(signal.SIGALRM, handler)
        if outer_s:  # Ansible's own limit of a task
            signal.setitimer(signal.ITIMER_REAL, max(0.01, outer_s - (time.monotonic() - began)))
    if limits.reached is not None:
        raise limits.reached


@dataclass
class _Limits:
    """Limits of one execution, its processes, and the end of what they wrote to stderr."""

    limit_s: float
    max_bytes: int
    processes: list[_CountedPopen] = field(default_factory=list)
    num_bytes: int = 0
    stderr: bytes = b""
    reached: NoAnswer | None = None

    def count(self, data: bytes, *, is_stderr: bool) -> None:
        self.num_bytes += len(data)
        if is_stderr:
            self.stderr = (self.stderr + data)[-STDERR_TAIL:]
        if self.num_bytes > self.max_bytes:
            self._end(f"it sent more than {self.max_bytes >> 20} MiB instead of an answer")

    def at_the_limit(self, *_: object) -> None:
        said = self.stderr.decode("utf-8", "replace").strip().splitlines()
        quoted = f"; it said: {said[-1]}" if said else ""
        self._end(f"it did not answer within {self.limit_s:.0f} s{quoted}")

    def _end(self, message: str) -> NoReturn:
        """End the processes first: who closes the pipe to a process that does not read waits for it."""
        self.reached = NoAnswer(message)
        for process in self.processes:
            process.stop()
        raise self.reached


def _descendants(pid: int) -> list[int]:
    """Processes that this one and its children have started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for known in found:
        found += children.get(known, ())
    return found[1:]


class _Counted:
    """A pipe's reading end that counts. Its `read` returns what has arrived, like that of a non-blocking pipe."""

    def __init__(self, pipe: IO[bytes], limits: _Limits, *, is_stderr: bool) -> None:
        self._pipe, self._limits, self._is_stderr = pipe, limits, is_stderr

    def read(self, _size: int = -1) -> bytes | None:
        try:
            data = os.read(self._pipe.fileno(), READ_SIZE)
        except BlockingIOError:
            return None
        self._limits.count(data, is_stderr=self._is_stderr)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pipe, name)


class _CountedPopen(subprocess.Popen[bytes]):
    """A process whose output counts. `communicate` knows no timeout: the limit of the execution applies."""

    applied: _Limits

    def __init__(self, *arguments: Any, **options: Any) -> None:
        if self.applied.reached is not None:
            raise self.applied.reached
        super().__init__(*arguments, **options)
        self._feeder: threading.Thread | None = None
        self.applied.processes.append(self)
        for name in ("stdout", "stderr"):
            pipe = getattr(self, name)
            if pipe is not None:
                setattr(self, name, _Counted(pipe, self.applied, is_stderr=name == "stderr"))

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:  # noqa: A002, ARG002 - names of subprocess
        found = {"stdout": bytearray(), "stderr": bytearray()}
        if self.stdin is not None:
            self._feeder = threading.Thread(target=self._feed, args=(input or b"",), daemon=True)
            self._feeder.start()
        with selectors.DefaultSelector() as selector:
            for name in found:
                if getattr(self, name) is not None:
                    selector.register(getattr(self, name), selectors.EVENT_READ, name)
            while selector.get_map():
                for key, _ in selector.select():
                    data = key.fileobj.read()  # type: ignore[union-attr]
                    found[key.data] += data or b""
                    if data == b"":
                        selector.unregister(key.fileobj)
                        key.fileobj.close()  # type: ignore[union-attr]
        self.wait()
        return bytes(found["stdout"]), bytes(found["stderr"])

    def _feed(self, data: bytes) -> None:
        assert self.stdin is not None  # noqa: S101 - for the type checker: the caller has looked
        with contextlib.suppress(OSError, ValueError):
            self.stdin.write(data)
        with contextlib.suppress(OSError, ValueError):
            self.stdin.close()

    def stop(self) -> None:
        """End it and what it started on the controller. A process that waits for a mount may not end, and is left."""
        for pid in _descendants(self.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGTERM)
        for end in (self.terminate, self.kill):
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                end()
                self.wait(STOP_S)
        if self._feeder is not None:
            self._feeder.join(STOP_S)
        elif self.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                os.set_blocking(self.stdin.fileno(), False)  # another process may have the pipe, and not read it
                self.stdin.close()
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
