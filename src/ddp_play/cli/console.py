"""Terminal output of all verbs: results go to stdout, progress and errors to stderr. No other module prints.

With --json stdout has one JSON document and nothing else: text goes to stderr.

Texts come from hosts, ranks and users. Characters that could control a terminal are replaced here.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import os
import sys
import unicodedata
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import escape
from rich.segment import Segment, Segments
from rich.style import Style
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import ConsoleOptions, RenderableType
    from rich.table import Table

# Control characters (escape sequences begin with one), invisible and bidirectional formats, surrogates, separators.
HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


UNLIMITED = 100_000
TAB_WIDTH = 8
STDOUT, STDERR = 1, 2
LEAST_FOLDED = 16  # width of a last column that is folded


def _is_hidden(char: str) -> bool:
    return char != "\n" and unicodedata.category(char) in HIDDEN


def harmless(text: str) -> str:
    """The text with a replacement character for each one that could control a terminal; line ends stay."""
    if text.isprintable():
        return text
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_hidden(char) else char for char in text)


class SafeConsole(Console):
    """A console on which only its own styles and cursor movements control the terminal, and `:x:` is no emoji."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(emoji=False, **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)

    def on_broken_pipe(self) -> None:
        """Raise the error, as for other failed writes; rich ends the process with exit code 1."""
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


class ResultConsole(SafeConsole):
    """Where results go. If their reader has ended, the command goes on, and its exit code counts."""

    def print(self, *objects: Any, **more: Any) -> None:
        with _reader_may_end():
            super().print(*objects, **more)


class ErrorConsole(SafeConsole):
    """Standard error. Where nothing can be written to it, there is nobody to tell: the command goes on without."""

    def print(self, *objects: Any, **more: Any) -> None:
        try:
            super().print(*objects, **more)
        except OSError:
            drop(STDERR)


def drop(descriptor: int) -> None:
    """From now on what is written to this descriptor of the process goes nowhere, also what Python still holds."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def drop_results() -> None:
    """From now on the text of results goes nowhere. A JSON document is no text."""
    drop(STDERR if out.stderr else STDOUT)


@contextmanager
def _reader_may_end() -> Iterator[None]:
    """Results that nobody reads end no command; a full disk does, unless it holds standard error."""
    try:
        yield
    except OSError as error:
        if not (out.stderr or isinstance(error, BrokenPipeError)):
            raise
        drop_results()


out: SafeConsole = ResultConsole(highlight=False, soft_wrap=True)
err = ErrorConsole(stderr=True, highlight=False, soft_wrap=True)
_json_due = False  # a JSON document is expected on stdout, and none was printed yet


def escape_unknown_characters() -> None:
    """From now on characters that the encoding of standard output or error lacks are printed as escapes of Python."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not _has_all_characters(stream):
            stream.reconfigure(errors="backslashreplace")


def _has_all_characters(stream: TextIO) -> bool:
    return codecs.lookup(getattr(stream, "encoding", None) or "utf-8").name.startswith("utf")


@contextmanager
def answering(*, as_json: bool) -> Iterator[None]:
    """One command. With `as_json` its text goes to stderr, and stdout is for one JSON document."""
    global _json_due
    out.stderr, _json_due = as_json, as_json
    try:
        yield
    finally:
        out.stderr, _json_due = False, False


def asks() -> bool:
    """Whether a person can read a question and answer it."""
    return sys.stdin.isatty() and out.is_terminal


def line(text: str = "", *, style: str = "") -> None:
    """Print one line of the result. Markup in the text is not interpreted."""
    if style:
        out.print(escape(text), style=style)
        return
    with _reader_may_end():
        plain_line(text)


def plain_line(text: str) -> None:
    """Print one line without styles: rich takes fifty times as long, and ranks print millions.

    BrokenPipeError if the reader has ended, so that nothing more is read for it; `line` goes on.
    """
    file = out.file
    file.write(harmless(text.expandtabs(TAB_WIDTH)) + "\n")
    file.flush()


def note(text: str, *, style: str = "dim") -> None:
    """Print one line about progress to stderr."""
    err.print(escape(text), style=style)


def note_if_any(text: str) -> None:
    """Print one line to stderr, unless it is empty."""
    if text:
        note(text)


def error(message: str, *, hint: str = "") -> None:
    """Print the error message of a failed command and, if known, what to do."""
    err.print(f"[bold red]error:[/] {escape(message)}")
    if hint:
        err.print(f"  [yellow]->[/] {escape(hint)}")


def json_error(document: dict[str, Any]) -> None:
    """Print the error as the JSON document that is expected, unless the command has printed one already."""
    if _json_due:
        as_json(document)


def wide_table(table: Table, *, columns: int = 0) -> None:
    """Print a table at least this wide: a narrow terminal breaks its lines, but no cell. In files nothing is broken.

    Without a number it is as wide as its cells.
    """
    least = columns or out.measure(table, options=out.options.update(max_width=UNLIMITED)).maximum
    width = max(least, out.width) if out.is_terminal else UNLIMITED
    out.print(Segments(list(out.render(table, out.options.update(max_width=width)))), end="")


def long_table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, styled: int, styles: Sequence[str]) -> None:
    """Print a table of perhaps ten thousand rows, for which rich's own takes nine seconds.

    The column `styled` has in each row the style of `styles`. On a terminal the last column is folded; a narrow one
    breaks lines, but no other cell. In files nothing is broken.
    """
    last = len(columns) - 1
    widths = [max(map(cell_len, cells)) for cells in zip(columns, *rows, strict=True)][:last]
    left = sum(widths) + 2 * last
    width = max(out.width - left, LEAST_FOLDED) if out.is_terminal else UNLIMITED
    head = "".join(_padded(name, size) for name, size in zip(columns, widths, strict=False))
    shown = [Segment(head + columns[last], Style(bold=True)), Segment.line()]
    for row, style in zip(rows, map(Style.parse, styles), strict=True):
        cells = [_padded(cell, size) for cell, size in zip(row, widths, strict=False)]
        first, *folded = _folded(row[last], width)
        shown += [
            Segment("".join(cells[:styled])),
            Segment(cells[styled], style),
            Segment("".join(cells[styled + 1 :]) + first),
            Segment.line(),
        ]
        for text in folded:
            shown += [Segment(" " * left + text), Segment.line()]
    out.print(Segments(shown), end="")


def _padded(text: str, width: int) -> str:
    return text.ljust(width + 2) if text.isascii() else set_cell_size(text, width + 2)


def _folded(text: str, width: int) -> list[str]:
    if cell_len(text) <= width:
        return [text]
    return [part.plain.rstrip() for part in Text(text).wrap(out, width, overflow="fold")]


def as_text(shown: Any, *, width: int = 140) -> str:
    """A table as plain text without colors, for a file."""
    text = io.StringIO()
    SafeConsole(file=text, width=width, color_system=None).print(shown)
    return text.getvalue()


def as_json(value: Any, *, indent: int | None = 2) -> None:
    """Print the result as one JSON document with sorted keys. Without indent this is five times as fast."""
    global _json_due  # noqa: PLW0603 - a process has one standard output
    _json_due = False
    if sys.stdout is None:  # closed, by who has started the command
        return
    ascii_only = not _has_all_characters(sys.stdout)
    text = json.dumps(value, indent=indent, sort_keys=True, ensure_ascii=ascii_only, default=str)
    try:
        sys.stdout.write("\n".join(map(_escaped, text.split("\n"))) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # as with text: the exit code counts
        drop(STDOUT)


def raw(data: bytes, descriptor: int = STDOUT) -> None:
    """Write bytes as they are to standard output or error, if it is open. BrokenPipeError if its reader has ended."""
    stream = sys.stdout if descriptor == STDOUT else sys.stderr
    if stream is not None:
        stream.flush()
        stream.buffer.write(data)
        stream.buffer.flush()


def relay(data: bytes, descriptor: int) -> None:
    """Write what another process has written there. If nobody reads it, the command goes on, as with other text."""
    try:
        raw(data, descriptor)
    except BrokenPipeError:
        drop(descriptor)


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(json.dumps(char)[1:-1] if _is_hidden(char) else char for char in text)
