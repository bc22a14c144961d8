"""The terminal while the screen is on it: drawing of rows, keys, size; restored in every case. The only user of curses.

curses knows terminals from terminfo and writes only what has changed. Python's own signal handlers stay: Ctrl-C raises
KeyboardInterrupt as everywhere.
"""

from __future__ import annotations

import contextlib
import curses
import locale
import os
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from ddp_play.cli.screen.ranks_page import Size
from ddp_play.cli.screen.screen_frame import LEAST_HEIGHT, LEAST_WIDTH
from ddp_play.cli.screen.styled_rows import BAD, BOLD, CURSOR, DIM, GOOD, NOTE, TITLE, WARN

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from ddp_play.cli.screen.styled_rows import Row

# What a screen needs of a terminal beside a place for each character.
NEEDED = ("cup", "clear", "el")
ESCAPE_MS = 50
MOVE_BYTES = 8
NO_KEY, REDRAW = -1, 12  # 12: Ctrl-L
GONE_S = 0.2
COLOURS = {GOOD: curses.COLOR_GREEN, BAD: curses.COLOR_RED, WARN: curses.COLOR_YELLOW, NOTE: curses.COLOR_CYAN}
ATTRIBUTES = {
    TITLE: curses.A_REVERSE | curses.A_BOLD,
    CURSOR: curses.A_REVERSE,
    BOLD: curses.A_BOLD,
    DIM: curses.A_DIM,
    BAD: curses.A_BOLD,
    WARN: curses.A_BOLD,
}
KEYS = {
    curses.KEY_UP: "up",
    curses.KEY_DOWN: "down",
    curses.KEY_LEFT: "left",
    curses.KEY_RIGHT: "right",
    curses.KEY_PPAGE: "pageup",
    curses.KEY_NPAGE: "pagedown",
    curses.KEY_HOME: "home",
    curses.KEY_END: "end",
    curses.KEY_ENTER: "enter",
    curses.KEY_RESIZE: "resize",
    curses.KEY_BACKSPACE: "escape",
    ord("\n"): "enter",
    ord("\r"): "enter",
    ord(" "): "pagedown",
    27: "escape",
    127: "escape",
}


def screen_problem() -> str:
    """Why there can be no screen on this process's terminal; empty if there can."""
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return "no terminal"
    name = os.environ.get("TERM", "")
    if name in ("", "dumb", "unknown"):
        return f"TERM is {name or 'not set'}"
    try:
        curses.setupterm(name, sys.stdout.fileno())
    except curses.error:
        return f"terminfo does not know the terminal {name}"
    if missing := [word for word in NEEDED if not curses.tigetstr(word)]:
        return f"the terminal {name} cannot {', '.join(missing)}"
    size = os.get_terminal_size(sys.stdout.fileno())
    if size.columns < LEAST_WIDTH or size.lines < LEAST_HEIGHT:
        return f"the terminal has {size.columns} columns and {size.lines} lines"
    return ""


class Terminal:
    """The screen is there from `with` to its end. Raises curses.error if the terminal refuses."""

    def __init__(self, *, colours: bool) -> None:
        self._wants_colours = colours
        self._window: Any = None
        self._styles: dict[str, int] = dict(ATTRIBUTES)
        self._before: list[Row] = []
        self._handler: Any = None
        self._size_names: dict[str, str] = {}
        self.ascii_only = False

    def __enter__(self) -> Terminal:
        with contextlib.suppress(locale.Error):
            locale.setlocale(locale.LC_CTYPE, "")
        self.ascii_only = "utf" not in locale.nl_langinfo(locale.CODESET).lower()
        # curses would believe them in place of the terminal, also after a change of its size
        self._size_names = {name: os.environ.pop(name) for name in ("LINES", "COLUMNS") if name in os.environ}
        self._window = curses.initscr()
        if signal.getsignal(signal.SIGTERM) in (signal.SIG_DFL, None):
            self._handler = signal.signal(signal.SIGTERM, self._end_process)
        try:
            self._set_up()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _set_up(self) -> None:
        curses.noecho()
        curses.cbreak()
        curses.set_escdelay(ESCAPE_MS)
        self._window.keypad(True)
        self._window.idlok(True)  # a text that moves up costs a line, not a screen
        with contextlib.suppress(curses.error):
            curses.curs_set(0)
        if self._wants_colours and curses.has_colors():
            curses.start_color()
            curses.use_default_colors()
            for pair, (style, colour) in enumerate(COLOURS.items(), start=1):
                curses.init_pair(pair, colour, -1)
                self._styles[style] = self._styles.get(style, 0) | curses.color_pair(pair)

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(curses.error):
            curses.curs_set(1)
        with contextlib.suppress(curses.error):  # where there is no second screen, what follows begins on the last line
            self._window.move(self._window.getmaxyx()[0] - 1, 0)
            self._window.clrtoeol()
            self._window.refresh()
        with contextlib.suppress(curses.error):
            curses.endwin()
        os.environ.update(self._size_names)
        if self._handler is not None:
            signal.signal(signal.SIGTERM, self._handler)
            self._handler = None

    def _end_process(self, _signum: int, _frame: object) -> None:
        """End by SIGTERM as without a screen, with the terminal as it was."""
        self.__exit__(None, None, None)
        os.kill(os.getpid(), signal.SIGTERM)

    @property
    def size(self) -> Size:
        """The size now."""
        height, width = self._window.getmaxyx()
        return Size(width, height, self.ascii_only)

    def draw(self, rows: Sequence[Row]) -> int:
        """Show these rows; return about how many bytes that took."""
        num_bytes = 0
        for place, row in enumerate(rows):
            before = self._before[place] if place < len(self._before) else []
            if before != row:
                num_bytes += _cost(before, row)
                self._draw_row(place, row)
        self._before = list(rows)
        self._window.refresh()
        return num_bytes

    def _draw_row(self, place: int, row: Row) -> None:
        with contextlib.suppress(curses.error):  # the last cell of the last line cannot be written
            self._window.move(place, 0)
            self._window.clrtoeol()
            for text, style in row:
                shown = text.encode("ascii", "replace").decode() if self.ascii_only else text
                self._window.addstr(shown, self._styles.get(style, 0))

    def key(self, timeout_s: float) -> str:
        """The key that is pressed next: a character, or a name such as `up`; empty if none was within this time."""
        self._window.timeout(round(timeout_s * 1000))
        began = time.monotonic()
        code = self._window.getch()
        if code == NO_KEY and time.monotonic() - began < timeout_s / 2:
            time.sleep(min(timeout_s / 2, GONE_S))  # the terminal is gone, and answers at once that it has no key
        if code in (curses.KEY_RESIZE, REDRAW):
            self._before = []
            self._window.clear()
        if code in KEYS:
            return KEYS[code]
        return chr(code) if 32 < code < 127 else ""


def _cost(before: Row, row: Row) -> int:
    """Bytes between the first and the last change in a row, with those that place the cursor and change styles."""
    old, new = ("".join(text for text, _ in one) for one in (before, row))
    if old == new:
        return MOVE_BYTES + len(new.encode("utf-8", "replace"))  # another style
    same = _num_equal(old, new)
    at_end = _num_equal(old[same:][::-1], new[same:][::-1]) if len(old) == len(new) else 0
    return MOVE_BYTES * (1 + len(row)) + len(new[same : len(new) - at_end].encode("utf-8", "replace"))


def _num_equal(first: str, second: str) -> int:
    """Characters at the beginning that are the same in both."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(second)))
