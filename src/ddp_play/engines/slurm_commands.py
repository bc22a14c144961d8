"""Slurm's own commands: each started once, with a time limit; its words when it fails, and the fields it printed."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddp_play.errors import HostNotReady

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_S = 30.0
# What Slurm prints for a field without a value.
NO_VALUE = "(null)"
_FIELD = re.compile(r"(?:^|\s)([A-Za-z:/]+)=(\S*)")
NO_CONTROLLER = ("Unable to contact slurm controller", "Socket timed out", "Zero Bytes were transmitted")


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """Why it failed: the last line that it printed on stderr, without the command's name."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        text = lines[-1] if lines else f"exit code {self.code}"
        return text.split("error: ", 1)[-1].strip()

    @property
    def silent_controller(self) -> bool:
        """Did Slurm's controller not answer?"""
        return self.code != 0 and any(text in self.err for text in NO_CONTROLLER)


if TYPE_CHECKING:
    Ask = Callable[..., Answer]


def ask(*words: str) -> Answer:
    """Run one command. HostNotReady if it is not installed here."""
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_S, check=False
        )
    except FileNotFoundError as error:
        raise HostNotReady(
            f"there is no Slurm on this machine: {words[0]} is not installed",
            hint="run ddp-play on a login node of the cluster",
        ) from error
    except subprocess.TimeoutExpired:
        return Answer(1, "", f"{words[0]}: error: {NO_CONTROLLER[1]}: no answer within {ANSWER_S:.0f} s")
    return Answer(done.returncode, done.stdout, done.stderr)


def shown(ask: Ask, kind: str, name: str) -> dict[str, str]:
    """What Slurm says about a job or a partition; nothing if it does not answer."""
    return fields_of(ask("scontrol", "show", kind, name, "--oneliner").out)


def fields_of(line: str) -> dict[str, str]:
    """Fields with a value of a line of `scontrol show ... --oneliner`.

    The first of a name: later ones are words of a path or a comment.
    """
    return {name: value for name, value in dict(reversed(_FIELD.findall(line))).items() if value != NO_VALUE}
