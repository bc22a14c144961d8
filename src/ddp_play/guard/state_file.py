"""state.json of an attempt, on a disk that may be full, read-only or over its quota."""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any, Dict, Optional

from .run_directory import write_json

if TYPE_CHECKING:
    from pathlib import Path

# An unchanged state is written this often, to find out whether the disk still takes what the ranks print.
CHECK_S = 5.0
RETRY_S = 1.0


class StateFile:
    """Writes the newest state when it can. `problem` says why it cannot, else empty."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._newest: Optional[Dict[str, Any]] = None
        self._tried = 0.0
        self.problem = ""
        self.stored = False

    def write(self, state: Dict[str, Any], *, check: bool = False) -> None:
        """Store `state` if it is new, if the last attempt was long ago, or to `check` the disk; never raise OSError."""
        if state != self._newest:
            self._newest, self.stored = copy.deepcopy(state), False
        waits_s = RETRY_S if self.problem else CHECK_S if self.stored else 0.0
        if check or time.monotonic() - self._tried >= waits_s:
            self._write(state)

    def _write(self, state: Dict[str, Any]) -> None:
        try:
            write_json(self._path, state)
            self.stored, self.problem = True, ""
        except OSError as error:
            self.problem = "%s: %s" % (self._path.parent, error.strerror or error)
        self._tried = time.monotonic()
