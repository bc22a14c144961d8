"""View of a run on this terminal: a screen where the terminal has one, else lines."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from rich.markup import escape

from ddp_play.cli import console, live_view

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.bundle.run_lookup import Run
    from ddp_play.cli.screen.run_screen import RunScreen

LINES_AT_THE_END = 10  # of each chosen rank's log


class RunView(Protocol):
    """A view of one run."""

    def follow(self) -> Run | None:
        """Show the run until it is over or has no supervisor; None if the person detached. May be called again."""

    def close(self) -> None:
        """Leave on the terminal what is to stay there."""


class LinesView:
    """Events and output as lines; they stay where they are."""

    def __init__(self, view: live_view.View) -> None:
        self._view = view

    def follow(self) -> Run | None:
        return live_view.follow(self._view)

    def close(self) -> None:
        """Nothing is left to print."""


class ScreenView:
    """The screen; what mattered is printed at its end."""

    def __init__(self, screen: RunScreen, ranks: str) -> None:
        self._screen, self._ranks = screen, ranks

    def follow(self) -> Run | None:
        return self._screen.follow()

    def close(self) -> None:
        for text, style in self._screen.last_lines(self._ranks, LINES_AT_THE_END):
            console.err.print(escape(text), style=style or None)


def open_run_view(paths: RunPaths, *, ranks: str, joined: bool, plain: bool, stop: Callable[[bool], None]) -> RunView:
    """The view for this terminal. `stop`: what the key for it does; True: now."""
    if plain or no_screen():
        return LinesView(live_view.open_view(paths, ranks=ranks, joined=joined))
    from ddp_play.cli.screen.run_screen import RunScreen  # noqa: PLC0415 - the ranks are being started meanwhile

    return ScreenView(RunScreen(paths, stop=stop), ranks)


def no_screen() -> str:
    """Why this process shows no screen; empty if it can."""
    if os.environ.get("CI"):
        return "CI is set"
    if not (console.asks() and console.err.is_terminal):
        return "no terminal"
    from ddp_play.cli.screen.terminal import screen_problem  # noqa: PLC0415 - only on terminals

    return screen_problem()
