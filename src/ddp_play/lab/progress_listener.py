"""Interface for progress messages of long operations, independent of the output."""

from __future__ import annotations

from typing import Protocol


class ProgressListener(Protocol):
    """Receiver of progress messages."""

    def step(self, text: str) -> None:
        """Report a step, shown on a line of its own."""

    def detail(self, text: str) -> None:
        """Report a detail, which the next message may replace."""


class SilentListener:
    """Discards all messages, for tests and for callers that need only the result."""

    def step(self, text: str) -> None:
        """Discard the message."""

    def detail(self, text: str) -> None:
        """Discard the message."""
