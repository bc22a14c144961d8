"""Output of all verbs, the only printer: answers go to stdout, progress and errors to stderr."""

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
    """One line of answer; the text is never read as markup."""
    out.print(escape(text), style=style or None)


def note(text: str, *, style: str = "dim") -> None:
    """One line about progress, on stderr."""
    err.print(escape(text), style=style)


def error(message: str, *, hint: str = "") -> None:
    """The red line of a failed command, and the line that helps."""
    err.print(f"[bold red]error:[/] {escape(message)}")
    if hint:
        err.print(f"  [yellow]->[/] {escape(hint)}")


def as_text(shown: Any, *, width: int = 140) -> str:
    """A table as plain text, for a file."""
    text = io.StringIO()
    Console(file=text, width=width, color_system=None).print(shown)
    return text.getvalue()


def as_json(value: Any) -> None:
    """Machine-readable answer: sorted keys, two spaces, one document."""
    sys.stdout.write(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()
