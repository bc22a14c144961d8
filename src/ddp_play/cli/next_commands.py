"""Commands that verbs print for the user to copy: they work as printed in the shell that printed them."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.bundle.paths import home
from ddp_play.cli import console

if TYPE_CHECKING:
    from collections.abc import Sequence

PROGRAM = "ddp-play"


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command line and what it does."""

    command: str
    purpose: str

    def to_json(self) -> dict[str, str]:
        """For --json."""
        return asdict(self)


def show(heading: str, commands: Sequence[NextCommand]) -> None:
    """Print commands, each on a line of its own that is never broken, below the comment that says what it does."""
    console.line(heading)
    for row in commands:
        console.line(f"  # {row.purpose}", style="dim")
        console.line(f"  {row.command}")


def ddp_play(*words: str) -> str:
    """A command line of ddp-play that uses this program and this state directory."""
    return f"{state_directory()}{program()} {shlex.join(words)}"


def as_word(path: Path) -> str:
    """The path as a word of a command line: quoted, and never one that is read as an option."""
    return shlex.quote(f"./{path}" if str(path).startswith("-") else str(path))


def program() -> str:
    """`ddp-play`, or this program's path if the shell finds none or another one under that name."""
    called = Path(sys.argv[0])
    if called.name != PROGRAM:
        return PROGRAM  # python -m ddp_play, or a test
    found = shutil.which(PROGRAM)
    if found and Path(found).resolve() == called.resolve():
        return PROGRAM
    return shlex.quote(str(called.absolute()))


def state_directory() -> str:
    """Assignment of DDP_PLAY_HOME that precedes a command; empty if the variable is not set.

    The variable may have been set for one command only.
    """
    return f"DDP_PLAY_HOME={shlex.quote(str(home()))} " if os.environ.get("DDP_PLAY_HOME") else ""
