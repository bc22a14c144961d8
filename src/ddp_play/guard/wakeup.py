"""A flag that threads wait for and that a signal handler may set."""

from __future__ import annotations

import contextlib
import os
import select


class Wakeup:
    """Like `threading.Event`, but `set` takes no lock, which the interrupted thread may hold."""

    def __init__(self) -> None:
        self._out, self._in = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)

    def is_set(self) -> bool:
        """Whether `set` was called since the last `clear`."""
        return bool(self._poll.poll(0))

    def set(self) -> None:
        """Wake whoever waits, now or later."""
        with contextlib.suppress(BlockingIOError):  # full: it is set
            os.write(self._in, b"x")

    def clear(self) -> None:
        """Take back every `set` until now."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._out, 1 << 16):
                pass

    def wait(self, timeout_s: float) -> bool:
        """Return when it is set, at the latest after `timeout_s`; whether it is set."""
        return bool(self._poll.poll(timeout_s * 1000))

    def __del__(self) -> None:
        os.close(self._out)
        os.close(self._in)
