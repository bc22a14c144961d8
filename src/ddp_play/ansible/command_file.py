"""ansible-runner's file artifacts/1/command, without the values of the environment that it stores there."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MASK = "<not stored>"


class CommandFileRedactor:
    """Removes the environment's values as soon as the file is there, and once more at the end."""

    def __init__(self, command: Path) -> None:
        self._command = command
        self._done = False

    def redact(self, *, final: bool = False) -> None:
        """Mask the values, unless it was done; `final`: in any case."""
        if self._done and not final:
            return
        with contextlib.suppress(OSError, ValueError):
            document = json.loads(self._command.read_text(encoding="utf-8"))
            document["env"] = dict.fromkeys(document.get("env", {}), MASK)
            self._command.write_text(json.dumps(document, indent=2), encoding="utf-8")
            self._done = True
