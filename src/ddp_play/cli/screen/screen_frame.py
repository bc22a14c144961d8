"""The whole screen: exactly as many rows as the terminal has. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.cli.screen.ranks_page import Size, head, log_panel, notes_rows, ranks_list
from ddp_play.cli.screen.screen_state import Page, Question
from ddp_play.cli.screen.styled_rows import BOLD, DIM, WARN, Row, fit, joined
from ddp_play.cli.screen.text_pages import events_rows, help_rows, log_rows

if TYPE_CHECKING:
    from ddp_play.bundle.run_state import RunState
    from ddp_play.cli.screen.screen_state import ScreenState

# A smaller terminal shows lines instead.
LEAST_WIDTH, LEAST_HEIGHT = 40, 10
LIST_KEYS = ("? help", "l log", "e events", "g hosts", "d detach", "s stop", "q leave", "m metric")
LOG_KEYS = ("q back", "up down scroll", "left right rank", "End follow", "d detach", "s stop", "e events")
TEXT_KEYS = ("q back", "up down scroll", "d detach", "s stop")
QUESTIONS = {
    Question.STOP: "stop all ranks? y: yes, any other key: no",
    Question.STOP_NOW: "stop without a grace period? y: yes, any other key: no",
    Question.LEAVE: "leave? d: detach, the run goes on  s: stop  other key: no",
}


@dataclass(frozen=True, slots=True)
class Now:
    """What is shown beside the state of the run. Times in seconds since 1970."""

    run_id: str
    created: float
    time: float
    log: Sequence[str] = ()  # of the rank that is selected, or whose log is open


def frame(state: RunState, screen: ScreenState, size: Size, now: Now) -> list[Row]:
    """All rows of the screen. Notes in `screen` what is visible."""
    middle = Size(size.width, size.height - 1, size.ascii_only)
    if screen.page is Page.RANKS:
        rows = _ranks(state, screen, middle, now)
    elif screen.page is Page.LOG:
        rows = log_rows(state, now.log, screen, middle, run_id=now.run_id)
    else:
        rows = events_rows(state, screen, middle) if screen.page is Page.EVENTS else help_rows(middle)
    return [fit(row, size.width) for row in [*rows, footer(screen, size.width)]]


def _ranks(state: RunState, screen: ScreenState, size: Size, now: Now) -> list[Row]:
    above = head(now.run_id, state, screen, size, now=now.time, created=now.created)
    left = Size(size.width, size.height - len(above), size.ascii_only)
    if not state.hosts or state.phase == "waiting":  # for what, and behind whom, matters more than ranks
        below = events_rows(state, screen, left) if state.notes else [[("asking the hosts of the inventory", DIM)]]
        return [*above, *below, *([] for _ in range(left.height - len(below)))]
    notes = notes_rows(state, size)
    part = Size(size.width, max(2, left.height - len(notes)), size.ascii_only)
    listed = ranks_list(state, screen, part, now=now.time)
    panel = log_panel(state, screen, now.log, Size(size.width, part.height - len(listed), size.ascii_only))
    return [*above, *listed, *panel, *notes]


def footer(screen: ScreenState, width: int) -> Row:
    """The question, or else the keys."""
    if screen.question:
        return [(QUESTIONS[screen.question], WARN)]
    keys = {Page.RANKS: LIST_KEYS, Page.LOG: LOG_KEYS}.get(screen.page, TEXT_KEYS)
    pairs = [name.partition(" ") for name in keys]
    return joined([[(key, BOLD), (f" {text}", DIM)] for key, _, text in pairs], width)
