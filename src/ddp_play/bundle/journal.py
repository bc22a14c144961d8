"""Event journal of a run (events.jsonl): one JSON object per line, in order of time. Logs have files of their own."""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import TYPE_CHECKING, Any

from ddp_play.bundle.disk_space import is_full

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Journal:
    """Appends events. Several processes may write to the same file, because each line is one write."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._torn = False  # the disk was full within a line

    def emit(self, kind: str, **fields: Any) -> None:
        """Append an event with the controller's time."""
        line = json.dumps({"time": round(time.time(), 3), "type": kind, **fields}, ensure_ascii=False) + "\n"
        data = ("\n" * self._torn + line).encode("utf-8", "backslashreplace")  # a host's JSON may hold lone surrogates
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            written = os.write(fd, data)
            self._torn = written < len(data)
        except OSError as error:
            if not is_full(error):  # a full disk must not end the run because of an event
                raise
        finally:
            os.close(fd)


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """All complete events. An incomplete last line is not read yet; a line that a crash cut off is skipped."""
    if path.exists():
        with path.open("rb") as handle:
            for line in handle:
                if line.endswith(b"\n"):
                    with contextlib.suppress(ValueError):
                        yield json.loads(line)
