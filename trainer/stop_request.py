"""Requested stop: SIGTERM sets a flag that the training loop reads between steps."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM


class StopFlag:
    """Flag of a requested stop: `requested` is true after the first SIGTERM."""

    def __init__(self) -> None:
        self.requested = False

    def request(self, _signal: int, _frame: FrameType | None) -> None:
        """Set the flag; the signature is that of a signal handler."""
        self.requested = True


@contextmanager
def stop_on_sigterm() -> Iterator[StopFlag]:
    """Handle SIGTERM by setting a flag inside the block; afterwards the previous handler is active again."""
    flag = StopFlag()
    before = signal.signal(signal.SIGTERM, flag.request)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGTERM, before)
