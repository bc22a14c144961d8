"""Terminal output of all verbs: results go to stdout, progress and errors to stderr. No other module prints."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def line(text: str = "", *, style: str = "") -> None:
    """Print one line of the result. Markup in the text is not interpreted."""
    out.print(escape(text), style=style or None)


def note(text: str, *, style: str = "dim") -> None:
    """Print one line about progress to stderr."""
    err.print(escape(text), style=style)


def error(message: str, *, hint: str = "") -> None:
    """Print the error message of a failed command and, if known, what to do."""
    err.print(f"[bold red]error:[/] {escape(message)}")
    if hint:
        err.print(f"  [yellow]->[/] {escape(hint)}")


def as_text(shown: Any, *, width: int = 140) -> str:
    """A table as plain text without colors, for a file."""
    text = io.StringIO()
    Console(file=text, width=width, color_system=None).print(shown)
    return text.getvalue()


def as_json(value: Any) -> None:
    """Print the result as one JSON document with sorted keys."""
    sys.stdout.write(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()
