"""The screen of one run: reads its bundle, draws, and does what keys ask for. If it ends, the run goes on."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ddp_play.bundle.log_end import LogEnd
from ddp_play.bundle.paths import read_json
from ddp_play.bundle.run_lookup import Run
from ddp_play.bundle.run_reader import RunReader
from ddp_play.cli.screen.last_state import MAX_RANKS, Line, last_state
from ddp_play.cli.screen.ranks_page import visible_ranks
from ddp_play.cli.screen.screen_frame import Now, frame
from ddp_play.cli.screen.screen_state import Action, Page, ScreenState, press, selected_rank
from ddp_play.cli.screen.styled_rows import Row, clean
from ddp_play.cli.screen.terminal import Terminal
from ddp_play.cli.screen.text_pages import folded
from ddp_play.errors import Interrupted
from ddp_play.run.engine_runs import load

if TYPE_CHECKING:
    from ddp_play.bundle.paths import RunPaths
    from ddp_play.cli.screen.ranks_page import Size

# A run that fails before it has ranks is over within this time: no screen flashes up for it.
PATIENCE_S, WAIT_S = 2.0, 0.1
TICK_S = 0.5
# What a slow line carries; a frame that changes more makes the next one wait.
BYTES_PER_S = 3500.0
MAX_PAUSE_S = 5.0


class RunScreen:
    """The view of a run on a terminal that has a screen. `stop`: writes the stop request; True: now."""

    def __init__(self, paths: RunPaths, *, stop: Callable[[bool], None]) -> None:
        self.paths = paths
        self.reader = RunReader(paths)
        self.screen = ScreenState()
        self._stop = stop
        self._created = float(read_json(paths.run).get("created") or time.time())
        self._log: LogEnd | None = None
        self._log_of = (0, 0)  # attempt and rank

    def follow(self) -> Run | None:
        """Show the run until it is over or has no supervisor, and return its last state; None if the person detached.

        KeyboardInterrupt passes through, with the terminal as it was before; another call goes on.
        """
        run = self._wait_for_ranks()
        if _goes_on(run):
            with Terminal(colours="NO_COLOR" not in os.environ) as terminal:
                found = self._show(terminal)
            if found is None:
                return None
            run = found
        self.reader.refresh(self.reader.state.ranks)
        return run

    def last_lines(self, ranks: str, number: int) -> list[Line]:
        """What is to stay on the normal screen, with the last `number` lines of these ranks (`0,3` or `all`)."""
        state = self.reader.state
        chosen = [rank for rank in state.ranks.values() if ranks == "all" or str(rank.number) in ranks.split(",")]
        log = []
        for rank in chosen[:MAX_RANKS]:
            end = LogEnd(self.paths.log(rank.number))
            end.refresh()
            log += [(f"{rank.host}:{rank.number}", line) for line in end.lines[-number:]]
        return last_state(state, log)

    def _wait_for_ranks(self) -> Run:
        until = time.monotonic() + PATIENCE_S
        while True:
            run = load(self.paths)
            self.reader.refresh()
            if self.reader.state.ranks or not _goes_on(run) or time.monotonic() > until:
                return run
            time.sleep(WAIT_S)

    def _show(self, terminal: Terminal) -> Run | None:
        while True:
            run = load(self.paths)
            if not _goes_on(run):
                return run
            self._read(terminal.size)
            num_bytes = terminal.draw(self._rows(terminal.size))
            due = time.monotonic() + min(max(TICK_S, num_bytes / BYTES_PER_S), MAX_PAUSE_S)
            while (left := due - time.monotonic()) > 0:
                key = terminal.key(left)
                if not key:
                    continue
                if self._act(press(key, self.reader.state, self.screen)):
                    return None
                self._read(terminal.size)
                terminal.draw(self._rows(terminal.size))

    def _act(self, action: Action) -> bool:
        """Do what a key asks for; True if the person leaves."""
        if action in (Action.STOP, Action.STOP_NOW):
            with contextlib.suppress(Interrupted):  # the run is over
                self._stop(action is Action.STOP_NOW)
        return action is Action.DETACH

    def _read(self, size: Size) -> None:
        """Read what is on the screen, and no more."""
        state, screen = self.reader.state, self.screen
        on_list = screen.page is Page.RANKS
        self.reader.refresh(visible_ranks(state, screen) if on_list else ())
        rank = selected_rank(state, screen) if on_list else screen.rank
        if rank in state.ranks:
            self._read_log(rank, size)

    def _read_log(self, rank: int, size: Size) -> None:
        which = (self.reader.state.attempt, rank)
        if self._log is None or self._log_of != which:
            self._log, self._log_of = LogEnd(self.paths.log(rank)), which
        new = self._log.refresh()
        if self.screen.back and self.screen.page is Page.LOG:  # what a person reads stays where it is
            self.screen.back += sum(len(folded(clean(line), size.width)) for line in new)

    def _rows(self, size: Size) -> list[Row]:
        log = self._log.lines if self._log is not None else ()
        return frame(self.reader.state, self.screen, size, Now(self.paths.run_id, self._created, time.time(), log))


def _goes_on(run: Run) -> bool:
    return run.attended and not run.over
