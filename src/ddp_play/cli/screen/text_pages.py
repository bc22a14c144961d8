"""Pages of text: the log of a rank, the events, the keys. Pure: lines in, rows out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rich.cells import chop_cells

from ddp_play.cli.screen.ranks_page import NOTE_STYLES, STATE_TEXTS, host_text
from ddp_play.cli.screen.styled_rows import BOLD, DIM, PLAIN, TITLE, Row, Span, clean, ends, fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddp_play.bundle.run_state import RunState
    from ddp_play.cli.screen.ranks_page import Size
    from ddp_play.cli.screen.screen_state import ScreenState

KEYS = (
    ("up down k j", "select; also PageUp PageDown Home End"),
    ("Enter", "log of a rank; of a host: fold, unfold"),
    ("l", "log of a rank; left, right: other ranks"),
    ("e", "events of the run"),
    ("g", "hosts only, or hosts and their ranks"),
    ("m", "curve of another metric"),
    ("d", "detach; ddp-play attach shows it again"),
    ("s", "stop, after a question; s again: now"),
    ("Ctrl-C", "asks: detach or stop; again: stops"),
    ("q Esc", "back to the list; there q leaves"),
    ("Ctrl-L", "draw everything again"),
)
COLUMNS = (
    ("quiet", "time since a rank's last output"),
    ("step", "last step that the rank reported"),
    ("gpu%", "utilization of the rank's GPUs"),
    ("cpu mem", "CPU cores and memory of its processes"),
    ("in/out", "bytes per second of the ranks' network"),
)


ROOM = 20  # for the right end of a title


def help_rows(size: Size) -> list[Row]:
    """The keys and the columns."""
    rows: list[Row] = [[("keys", BOLD)], *(_explained(*pair) for pair in KEYS), []]
    rows += [[("columns", BOLD)], *(_explained(*pair) for pair in COLUMNS)]
    return [fit(row, size.width) for row in rows[: size.height]] + [[] for _ in range(size.height - len(rows))]


def _explained(name: str, text: str) -> Row:
    return [(f"  {name:<13}", BOLD), (text, PLAIN)]


def events_rows(state: RunState, screen: ScreenState, size: Size) -> list[Row]:
    """The events with their times, newest last."""
    spans: list[Span] = []
    for note in state.notes:
        clock = time.strftime("%H:%M:%S", time.localtime(note.time)) if note.time else "        "
        spans += [(f"{clock} {line}", NOTE_STYLES[note.level]) for line in note.text.splitlines()]
    return _text(f"events ({len(state.notes)})", spans, screen, size)


def log_rows(state: RunState, lines: Sequence[str], screen: ScreenState, size: Size, *, run_id: str) -> list[Row]:
    """The end of a rank's log; long lines are folded."""
    rank = state.ranks.get(screen.rank)
    where = (
        f"{host_text(rank.host, size)}:{rank.number} {STATE_TEXTS.get(rank.state, rank.state)} {rank.how}"
        if rank
        else ""
    )
    title, hint = clean(where.strip()), f"  whole log: ddp-play logs {run_id} --rank {screen.rank}"
    spans = [(line, PLAIN) for line in lines] or [("no output yet", DIM)]
    return _text(title + hint if len(title + hint) < size.width - ROOM else title, spans, screen, size)


def _text(title: str, spans: Sequence[Span], screen: ScreenState, size: Size) -> list[Row]:
    """A title and the last lines of a text, or those that the person has scrolled to."""
    height = max(1, size.height - 1)
    screen.height = height
    needed = height + screen.back
    rows: list[Row] = []
    for text, style in reversed(spans):
        rows[:0] = [[(part, style)] for part in folded(clean(text), size.width)]
        if len(rows) >= needed:
            break
    screen.back = min(screen.back, max(0, len(rows) - height))
    end = len(rows) - screen.back
    shown = rows[max(0, end - height) : end]
    where = f"{screen.back} lines below " if screen.back else "follows "
    return [ends([(f" {clean(title)}", TITLE)], [(where, TITLE)], size.width, TITLE), *shown] + [
        [] for _ in range(height - len(shown))
    ]


def folded(text: str, width: int) -> list[str]:
    """The text in parts of this width, as a terminal breaks a long line."""
    return chop_cells(text, width) or [""]
