"""What a person has chosen on the screen, and what a key changes there. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddp_play.bundle.run_state import RunState

# With more ranks than this, hosts are folded at first.
FOLDED_ABOVE = 128
PAGE = 10


class Page(StrEnum):
    """What fills the screen."""

    RANKS = "ranks"
    LOG = "log"
    EVENTS = "events"
    HELP = "help"


class Question(StrEnum):
    """What the last line asks; empty: nothing."""

    NONE = ""
    STOP = "stop"
    STOP_NOW = "stop now"
    LEAVE = "leave"


class Action(Enum):
    """What the view does beside drawing."""

    NONE = 0
    DETACH = 1
    STOP = 2
    STOP_NOW = 3


# A line of the list: a host (rank -1) or a rank.
Item = tuple[str, int]
HOST = -1


@dataclass
class ScreenState:
    """`selected` is a host or a rank, not a place: it stays selected when the order changes."""

    page: Page = Page.RANKS
    selected: Item | None = None
    folded: set[str] | None = None  # None: the run has no plan yet
    question: Question = Question.NONE
    back: int = 0  # lines between the end of a text and the last one shown; 0 follows
    rank: int = 0  # of the log
    metric: int = 0
    top: int = 0  # first line of the list that is shown
    height: int = PAGE  # lines of the list or the text that were shown last


def items(state: RunState, screen: ScreenState) -> list[Item]:
    """All lines of the list, in order. Of a folded host only the failed ranks are in it."""
    if screen.folded is None and state.hosts:
        screen.folded = set(state.hosts) if len(state.ranks) > FOLDED_ABOVE else set()
    folded = screen.folded or set()
    found: list[Item] = []
    for host in state.hosts_in_order():
        ranks = [rank for rank in state.ranks_in_order(host) if rank.bad or host.name not in folded]
        found += [(host.name, HOST), *((host.name, rank.number) for rank in ranks)]
    return found


def press(key: str, state: RunState, screen: ScreenState) -> Action:
    """Change the screen as a key asks for, and say what else is to be done."""
    if screen.question:
        return _answer(key, screen)
    if key in COMMON:
        return _common(key, state, screen)
    if screen.page is Page.RANKS:
        _in_list(key, state, screen)
    else:
        _in_text(key, state, screen)
    return Action.NONE


COMMON = ("d", "s", "e", "?", "q", "escape")


def _answer(key: str, screen: ScreenState) -> Action:
    """The answer to a question. Every other key than those that it names is a no."""
    question, screen.question = screen.question, Question.NONE
    if question is Question.LEAVE:
        screen.question = Question.STOP if key == "s" else Question.NONE
        return Action.DETACH if key == "d" else Action.NONE
    if key != "y":
        return Action.NONE
    return Action.STOP_NOW if question is Question.STOP_NOW else Action.STOP


def _common(key: str, state: RunState, screen: ScreenState) -> Action:
    if key == "d":
        return Action.DETACH
    if key == "s":
        screen.question = Question.STOP_NOW if state.stopping else Question.STOP
    elif key in ("e", "?"):
        page = Page.EVENTS if key == "e" else Page.HELP
        _show(Page.RANKS if screen.page is page else page, screen)
    elif screen.page is not Page.RANKS:
        _show(Page.RANKS, screen)
    elif key == "q":
        screen.question = Question.LEAVE
    return Action.NONE


def _show(page: Page, screen: ScreenState) -> None:
    screen.page, screen.back = page, 0


def _in_list(key: str, state: RunState, screen: ScreenState) -> None:
    rows = items(state, screen)
    if key == "m":
        screen.metric += 1
    elif key == "g" and rows:
        screen.folded = set() if screen.folded else set(state.hosts)
    elif key in MOVES and rows:
        place = selection(rows, screen) + MOVES[key] * (screen.height if key.startswith("page") else 1)
        screen.selected = rows[max(0, min(place, len(rows) - 1))]
    elif key in ("enter", "l") and rows:
        _open(rows[selection(rows, screen)], key, state, screen)


MOVES = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -1, "pagedown": 1, "home": -(10**6), "end": 10**6}


def _open(item: Item, key: str, state: RunState, screen: ScreenState) -> None:
    """The log of a rank; of a host its first rank's, or with Enter all its ranks."""
    host, rank = item
    if rank == HOST and key == "enter":
        screen.folded = (screen.folded or set()) ^ {host}
        return
    screen.rank = selected_rank(state, screen)
    _show(Page.LOG, screen)


def selection(rows: Sequence[Item], screen: ScreenState) -> int:
    """Place of the selected line: of a rank in a folded host its host, before the first key the first rank."""
    if screen.selected is None:
        return 1 if len(rows) > 1 and rows[1][1] != HOST else 0
    if screen.selected in rows:
        return rows.index(screen.selected)
    host = (screen.selected[0], HOST)
    return rows.index(host) if host in rows else 0


def selected_rank(state: RunState, screen: ScreenState) -> int:
    """The selected rank, or the first one of the selected host; -1 if there is none."""
    rows = items(state, screen)
    if not rows:
        return -1
    host, rank = rows[selection(rows, screen)]
    return rank if rank != HOST else min(state.hosts[host].ranks, default=-1)


def _in_text(key: str, state: RunState, screen: ScreenState) -> None:
    if key in MOVES:
        screen.back = max(0, screen.back - MOVES[key] * (screen.height if key.startswith("page") else 1))
    elif key in ("left", "right") and screen.page is Page.LOG and state.ranks:
        order = sorted(state.ranks)
        step = 1 if key == "right" else -1
        place = order.index(screen.rank) if screen.rank in state.ranks else 0
        screen.rank, screen.back = order[(place + step) % len(order)], 0
        screen.selected = (state.ranks[screen.rank].host, screen.rank)
