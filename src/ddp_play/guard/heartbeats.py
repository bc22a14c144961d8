"""Heartbeats of a host while it executes an order that takes long and sends nothing else."""

from __future__ import annotations

import contextlib
import threading
from typing import Callable, Iterator

BEAT_S = 1.0


@contextlib.contextmanager
def beating(beat: Callable[[], None]) -> Iterator[None]:
    """Call `beat` every second, in a thread, until the block ends. Nothing else may be sent meanwhile."""
    over = threading.Event()

    def run() -> None:
        with contextlib.suppress(OSError):  # the connection broke, which the order's answer shows
            while not over.wait(BEAT_S):
                beat()

    thread = threading.Thread(target=run, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
