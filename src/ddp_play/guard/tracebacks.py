"""Python tracebacks in the end of a rank's log: which error ended the program, without what was printed around it."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional

# torch puts `[rank1]: ` before the lines of a traceback, torchrun `[default1]:`; programs color their output.
PREFIX = re.compile(r"^(\[default\d+\]:)?(\[rank\d+\]:(?=\[[WIEF])|\[rank\d+\]:[ ]?)?")
COLORS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Lines that explain nothing: C++ frames, the dump of PYTHONFAULTHANDLER, wandb's farewell.
NOISE = re.compile(
    r"^\s*$|^frame #\d+:|^#\d+ \S.* from \S+:\d+$|^<omitting python frames>|^wandb: |^Extension modules: |"
    r"^Fatal Python error: Aborted|^(Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):|"
    r'^  File ".+", line \d+ in |^  <no Python frame>'
)
HEADER = re.compile(r"^(Original )?Traceback \(most recent call last\):$")
FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<name>.+)$')
CHAINED = re.compile(
    r"^(During handling of the above exception, another exception occurred|"
    r"The above exception was the direct cause of the following exception):$"
)
# Errors that Python prints and survives.
ASIDE = re.compile(r"^(Exception in thread |Exception ignored |Error in atexit)")
# What no longer belongs to the text of an exception: torch's own log lines and the end of the process.
AFTER = re.compile(
    r"^\[[WIEF]\d* ?[^\]]*\.(cpp|hpp):\d+\]|^terminate called |^Fatal Python error:|^Exception raised from "
)
MAX_TEXT_LINES = 8
# What torchrun raises after its ranks have failed or when it is told to end.
SUMMARY = re.compile(r"\b(ChildFailedError|SignalException):")
# Exceptions of control flow: a program that handles one of them has not failed.
HANDLED = re.compile(r"^(StopIteration|StopAsyncIteration|(_queue|queue)\.Empty)\b")


class Traceback(NamedTuple):
    """One traceback: its first line, the number of lines after it, and the traceback that it was raised from."""

    first: int
    frames: List["re.Match[str]"]
    text: List[str]
    after: int
    aside: bool
    cause: Optional["Traceback"]

    @property
    def root(self) -> "Traceback":
        """The first error of the chain: what came after it was raised while it was handled."""
        if self.cause is None or HANDLED.match(self.cause.first_line):
            return self
        return self.cause.root

    @property
    def first_line(self) -> str:
        """`ValueError: loss is nan`."""
        return self.text[0] if self.text else ""


def meaningful(tail: str) -> List[str]:
    """The lines that may explain an end, without prefixes, colors and noise."""
    lines = (PREFIX.sub("", COLORS.sub("", line.rpartition("\r")[2] or line)) for line in tail.split("\n"))
    return [line.rstrip() for line in lines if not NOISE.match(line)]


def find_all(lines: List[str]) -> List[Traceback]:
    """All tracebacks, oldest first."""
    found: List[Traceback] = []
    starts = [index for index, line in enumerate(lines) if HEADER.match(line)]
    frame = next((index for index, line in enumerate(lines) if FRAME.match(line)), None)
    if frame is not None and (not starts or frame < starts[0]):
        starts.insert(0, frame - 1)  # its header is above the part of the log that was read
    for start in starts:
        chained = start > 0 and bool(CHAINED.match(lines[start - 1])) and bool(found)
        aside = found[-1].aside if chained else start > 0 and bool(ASIDE.match(lines[start - 1]))
        found.append(_read(lines, start, aside=aside, cause=found[-1] if chained else None))
    return found


def _read(lines: List[str], start: int, *, aside: bool, cause: Optional[Traceback]) -> Traceback:
    at = start + 1
    while at < len(lines) and lines[at][:1].isspace():
        at += 1
    frames = [match for match in map(FRAME.match, lines[start + 1 : at]) if match]
    text: List[str] = []
    end = at + 1
    while end < len(lines) and lines[end][:1].isspace():
        end += 1  # further lines of its message
    while at < len(lines) and len(text) < MAX_TEXT_LINES and not _ends_text(lines[at]):
        text.append(lines[at])
        at += 1
    return Traceback(start, frames, text, max(0, len(lines) - end), aside, cause)


def _ends_text(line: str) -> bool:
    return bool(HEADER.match(line) or CHAINED.match(line) or ASIDE.match(line) or AFTER.match(line))


def errors(lines: List[str]) -> List[Traceback]:
    """The errors of the program itself, oldest first: not those of its threads or of its exit handlers."""
    return [each for each in find_all(lines) if not each.aside]


def without_summary(lines: List[str]) -> List[str]:
    """The lines before torchrun's summary of its ranks, all lines where there is none."""
    for each in reversed(errors(lines)):
        if SUMMARY.search(each.first_line):
            return lines[: each.first]
    return lines
