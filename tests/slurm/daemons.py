"""Daemons of a cluster of this machine, in the foreground and with their output in a file."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def start_daemon(output: Path, environment: dict[str, str], *words: str) -> subprocess.Popen[bytes]:
    """Start a daemon in a session of its own; `environment` is added to this process's."""
    with output.open("ab") as file:
        return subprocess.Popen(
            words,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
