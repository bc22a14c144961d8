"""A requested stop: SIGTERM sets a flag, the training loop looks at it between steps."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

EXIT_CODE = 128 + signal.SIGTERM


class StopFlag:
    """True once this rank was asked to stop."""

    def __init__(self) -> None:
        self.requested = False

    def request(self, _signal: int, _frame: FrameType | None) -> None:
        self.requested = True


@contextmanager
def stop_on_sigterm() -> Iterator[StopFlag]:
    """Turn SIGTERM into a flag inside the block; outside it SIGTERM ends the process at once, as usual."""
    flag = StopFlag()
    before = signal.signal(signal.SIGTERM, flag.request)
    try:
        yield flag
    finally:
        signal.signal(signal.SIGTERM, before)
