"""How long work tells what it is doing, without knowing who prints it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """`step` is worth a line of its own; `detail` may flash by."""

    def step(self, text: str) -> None: ...

    def detail(self, text: str) -> None: ...


class Silent:
    """Says nothing: for tests and for callers that only want the result."""

    def step(self, text: str) -> None:
        """Drop it."""

    def detail(self, text: str) -> None:
        """Drop it."""
