"""Waiting for a condition with a deadline."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


ENOUGH = 80 << 20  # bytes of noise: more than any limit on what is kept of a stream


def wait_until(condition: Callable[[], Any], *, timeout_s: float = 60.0, what: str = "", every_s: float = 0.05) -> Any:
    """The first true value of the condition; the test fails after `timeout_s` seconds and says `what` was missing."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s: {what or 'the condition'}"
        time.sleep(every_s)
    return value


def bytes_written(pid: int) -> int:
    """How many bytes a process has written so far, by its kernel."""
    return int(next(line.split()[1] for line in Path(f"/proc/{pid}/io").read_text().splitlines() if "wchar" in line))
