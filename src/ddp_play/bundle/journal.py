"""events.jsonl: what happened, in order, one JSON object a line. Log bytes never pass through it."""

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
    """Appends events; several processes may hold one each, a line is one write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def emit(self, kind: str, **fields: Any) -> None:
        """One event, stamped with the controller's clock."""
        line = json.dumps({"time": round(time.time(), 3), "type": kind, **fields}, ensure_ascii=False) + "\n"
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(fd, line.encode("utf-8", "backslashreplace"))  # a host's JSON may hold lone surrogates
        except OSError as error:
            if not is_full(error):  # an event that does not fit is no reason to end a run
                raise
        finally:
            os.close(fd)


def read_events(path: Path) -> Iterator[dict[str, Any]]:
    """All complete events; a torn last line is left for later, one that a crash tore is skipped."""
    if path.exists():
        with path.open("rb") as handle:
            for line in handle:
                if line.endswith(b"\n"):
                    with contextlib.suppress(ValueError):
                        yield json.loads(line)
