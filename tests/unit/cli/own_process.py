"""The command as a process of its own, for tests of its standard streams."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def run_command(*words: str, encoding: str = "utf-8", **streams: Any) -> subprocess.CompletedProcess[bytes]:
    """Run `ddp-play WORDS` to its end; streams that are not given are captured. `encoding`: of its output."""
    return subprocess.run(
        [sys.executable, "-m", "ddp_play", *words],
        **{"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams},
        env={**os.environ, "PYTHONIOENCODING": encoding},
        timeout=60,
        check=False,
    )


@contextmanager
def unread_pipe() -> Iterator[int]:
    """The writing end of a pipe whose reader has ended."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        yield writing
    finally:
        os.close(writing)
