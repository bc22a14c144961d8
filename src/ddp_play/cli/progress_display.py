"""Progress of long work on stderr: a line per step, and on a terminal a moving line for the details."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.markup import escape

from ddp_play.cli import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.status import Status


class TerminalProgress:
    """Implements `ddp_play.lab.progress_listener.ProgressListener` over the console."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._step = ""

    def step(self, text: str) -> None:
        """A line that stays."""
        self._step = text
        console.note(text)
        self._status.update(escape(text))

    def detail(self, text: str) -> None:
        """What is going on within the step; only shown on a terminal."""
        self._status.update(escape(f"{self._step}: {text[:100]}"))


@contextmanager
def progress(text: str) -> Iterator[TerminalProgress]:
    """Show that work is going on until the block ends."""
    with console.err.status(escape(text)) as status:
        yield TerminalProgress(status)
