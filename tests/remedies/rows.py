"""A row of the table of remedies: a failure, the message that it gives, and what the message says to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.remedies.scene import Scene

# What a message has in the place of a word in capitals: a path, a name, a number.
PLACE = re.compile(r"\b(?:INVENTORY|PLAYBOOK|RUN|HOSTS?|USER|FILE|DIRECTORY|IMAGE|PORT|ADDRESS|NAME|VALUE|KEY|PID)\b")
END = r"(?=[\s;,:?)'\"]|\.\s|\.?$)"
Make = Callable[["Scene"], list[str]]
Fix = Callable[["Scene", "re.Match[str]"], object]


@dataclass(frozen=True)
class Row:
    """One failure.

    `says` and `remedy` are texts of the message, with `...` and words in capitals for what differs. The command in
    `remedy` is between backquotes, which the message does not have.
    """

    name: str
    area: str
    says: str
    remedy: str
    make: Make  # produces the failure, and gives the words of the command that meets it
    code: int = 64
    fix: Fix | None = None  # does what the remedy says, where that is an edit; else its command is executed
    again: Make | None = None  # the words of the second try, where the remedy changes them; else the same
    code_after: int = 0
    seen: str = ""  # in the output of the second try
    not_applied: str = ""  # why a test machine cannot do what the remedy says

    @property
    def said(self) -> re.Pattern[str]:
        """The message."""
        return re.compile(_pattern(self.says), re.DOTALL)

    @property
    def told(self) -> re.Pattern[str]:
        """The remedy; its group `command` is the command, if it has one."""
        known: set[str] = set()
        before, *inside = self.remedy.split("`", 2)
        if not inside:
            return re.compile(_pattern(before, known) + END)
        command, after = inside
        parts = [_pattern(text, known) for text in (before, command, after.replace("`", ""))]
        return re.compile(f"{parts[0]}(?P<command>{parts[1]}){parts[2]}{END}")


def _pattern(text: str, known: set[str] | None = None) -> str:
    """A regular expression. The first place of each kind is a group with its name."""
    known = set() if known is None else known
    parts, end = [], 0
    for place in PLACE.finditer(text):
        parts.append(_literal(text[end : place.start()]))
        name = "" if place[0] in known else f"?P<{place[0]}>"
        parts.append(f"({name or '?:'}'[^']*'|[^\\s;?]+?)")
        known.add(place[0])
        end = place.end()
    return "".join(parts) + _literal(text[end:])


def _literal(text: str) -> str:
    return ".*?".join(map(re.escape, text.split("...")))
