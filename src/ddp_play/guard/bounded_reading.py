"""Readings in processes of their own, all at once, each with a time limit: one that hangs costs only itself."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

MAX_BYTES = 512 << 10
READ_SIZE = 1 << 16
LOOK_S = 0.5  # between two questions whether anybody still waits

Reading = Tuple[Callable[[], Any], float]  # what returns a JSON value, and its limit in seconds


def read_all(readings: Dict[str, Reading], given_up: Optional[Callable[[], bool]] = None) -> Dict[str, Dict[str, Any]]:
    """By name: `value` and `took_s`, or `problem`. A process that does not even die, on a dead mount, is left.

    `given_up`: whether nobody waits for the answers any more; asked now and then, it ends all of them.
    """
    running: List[_Child] = []
    found: Dict[str, Dict[str, Any]] = {}
    for name, reading in readings.items():
        try:
            running.append(_Child(name, *reading))
        except OSError as error:  # a limit on processes
            found[name] = {"problem": "no process could be started: %s" % error.strerror, "took_s": 0.0}
    while running:
        ready, _, _ = select.select([child.pipe for child in running], [], [], _pause_s(running, given_up))
        left: List[_Child] = []
        for child in running:
            if child.pipe in ready:
                child.receive()
            if child.is_over():
                found[child.name] = child.answer()
            else:
                left.append(child)
        running = left
    return found


def _pause_s(running: List[_Child], given_up: Optional[Callable[[], bool]]) -> float:
    """Seconds until the next limit, or until it is asked again whether anybody still waits. If not, all limits pass."""
    if given_up is not None and given_up():
        for child in running:
            child.until = 0.0
    left_s = max(0.0, min(child.until for child in running) - time.monotonic())
    return left_s if given_up is None else min(left_s, LOOK_S)


class _Child:
    """A forked process that runs one reading, with the end of the pipe on which it answers."""

    def __init__(self, name: str, function: Callable[[], Any], limit_s: float) -> None:
        self.name, self.limit_s = name, limit_s
        self.began = time.monotonic()
        self.until = self.began + limit_s
        self.pipe, far = os.pipe()
        self._data = bytearray()
        self._ended = False
        try:
            self.pid = os.fork()
        except OSError:
            os.close(self.pipe)
            os.close(far)
            raise
        if self.pid == 0:
            _run(function, far)
        os.close(far)

    def receive(self) -> None:
        """Take what has arrived."""
        data = os.read(self.pipe, READ_SIZE)
        self._data += data
        self._ended = not data or len(self._data) > MAX_BYTES

    def is_over(self) -> bool:
        """Whether it has answered, or its time has."""
        return self._ended or time.monotonic() >= self.until

    def answer(self) -> Dict[str, Any]:
        """What it answered. Ends the process and all that it started."""
        os.close(self.pipe)
        with contextlib.suppress(OSError):
            os.killpg(self.pid, signal.SIGKILL)
        with contextlib.suppress(OSError):
            os.waitpid(self.pid, 0 if self._ended else os.WNOHANG)
        took_s = round(time.monotonic() - self.began, 3)
        if not self._ended:
            return {"problem": "no answer within %g s" % self.limit_s, "took_s": took_s}
        if len(self._data) > MAX_BYTES:
            return {"problem": "an answer of more than %d KiB" % (MAX_BYTES >> 10), "took_s": took_s}
        try:
            found: Dict[str, Any] = json.loads(bytes(self._data))
        except ValueError:
            return {"problem": "the process that read it was killed", "took_s": took_s}
        return {**found, "took_s": took_s}


def _run(function: Callable[[], Any], pipe: int) -> None:
    """In the child: answer and end, without anything of the parent's on stdin and stdout, or open."""
    try:
        os.setpgid(0, 0)
        _close_inherited(pipe)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        try:
            answer = {"value": function()}
        except NotReadableHere as error:
            answer = {"problem": str(error), "not_here": True}
        except Exception as error:  # noqa: BLE001 - whatever is wrong with a reading is its answer
            answer = {"problem": "%s: %s" % (type(error).__name__, error)}
        data = memoryview(json.dumps(answer).encode())
        while data:
            data = data[os.write(pipe, data) :]
    finally:
        os._exit(0)


def _close_inherited(kept: int) -> None:
    """Close what the parent has open: a reading that cannot be killed would hold its leases and pipes for it."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


class NotReadableHere(Exception):  # noqa: N818 - no error: this host, or this user, cannot tell
    """What the reading is about does not exist on this host, or this user may not see it."""
