"""Progress of long operations on stderr: a line per step and, on a terminal, a status line with details."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.markup import escape

from ddp_play.cli import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.status import Status


class TerminalProgress:
    """Prints progress messages; implements `ddp_play.lab.progress_listener.ProgressListener`."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._step = ""

    def step(self, text: str) -> None:
        """Print a line."""
        self._step = text
        console.note(text)
        self._status.update(escape(text))

    def detail(self, text: str) -> None:
        """Show a detail of the step in the status line. Without a terminal nothing is printed."""
        self._status.update(escape(f"{self._step}: {text[:100]}"))


@contextmanager
def progress(text: str) -> Iterator[TerminalProgress]:
    """Show a status line until the block ends."""
    with console.err.status(escape(text)) as status:
        yield TerminalProgress(status)
