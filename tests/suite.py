"""`make test`: every part that CI runs, each with its place and estimate; at the end one line per part and failed test.

A failed part does not keep the next ones from running. Exit status 1 if any part failed.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from tests.engine import answers, may_install

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parent.parent

_CLOSING = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+, )*\d+ [a-z]+) in \d+(?:\.\d+)?s\b")
_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] (?:[^:]+:\d+|[^:]+): (.*)$")
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/[^\s\[]+(?:\[.*?\](?= - |$))?)")
_COUNTED = ("passed", "failed", "error", "errors", "skipped")


@dataclass(frozen=True)
class Part:
    """One target of the Makefile; `seconds` were measured on two cores (a slow machine)."""

    target: str
    what: str
    seconds: int
    engine: bool = False


Group = tuple[Part, ...]
# Parts of a group run at the same time: those that mostly wait.
GROUPS = (
    (Part("check", "format, lint, types, import contracts, unit and content tests", 300),),
    (Part("run-tests", "gloo ranks, whole runs and faults on this machine", 900),),
    (
        Part("slurm-tests", "whole runs on a Slurm cluster of three nodes on this machine", 300),
        Part("molecule", "roles on container hosts", 350, engine=True),
        Part("wheel-demo", "the demo from a wheel in a clean environment", 200),
    ),
    (Part("lab-tests", "a lab of real hosts as containers", 1200, engine=True),),
)


@dataclass(frozen=True)
class Tests:
    """What pytest said of a part's tests: how many ended how, why some were skipped, which failed."""

    counts: Counter[str] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def take(self, line: str) -> None:
        """Add what one line of pytest's output says: its closing line, a reason for skipping, or a failed test."""
        if closing := _CLOSING.match(line):
            for number, word in (pair.split() for pair in closing[1].split(", ")):
                if word in _COUNTED:
                    self.counts[word.removesuffix("s")] += int(number)
        elif skipped := _SKIPPED.match(line):
            self.skips[skipped[2].strip()] += int(skipped[1])
        elif failed := _FAILED.match(line):
            self.failed.append(failed[1])


@dataclass(frozen=True)
class Result:
    """How one part ended; `skip_reason` is empty unless the whole part was skipped."""

    part: Part
    exit_code: int
    seconds: float
    tests: Tests = field(default_factory=Tests)
    skip_reason: str = ""


def skip_reason(part: Part) -> str:
    """Why a part cannot run here; empty if it can, or if its absence must be a failure (DDP_PLAY_REQUIRE_LAB=1)."""
    if not part.engine or os.environ.get("DDP_PLAY_REQUIRE_LAB") == "1" or answers():
        return ""
    return may_install()


def show_now(data: bytes) -> None:
    """Write output of a part, so that each of pytest's dots is seen at once."""
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def run_part(part: Part, show: Callable[[bytes], object] = show_now) -> Result:
    """Run a part's target, `show` its output in pieces as they come, and count its tests."""
    if reason := skip_reason(part):
        return Result(part, 0, 0.0, skip_reason=reason)
    started = time.monotonic()
    tests = Tests()
    make = shlex.split(os.environ.get("MAKE", "make"))
    with subprocess.Popen(
        [*make, "--no-print-directory", part.target],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as child:
        assert child.stdout is not None
        rest = b""
        while data := os.read(child.stdout.fileno(), 1 << 16):
            show(data)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                tests.take(line.decode(errors="replace").rstrip())
        tests.take(rest.decode(errors="replace"))
    return Result(part, child.returncode, time.monotonic() - started, tests)


def run_group(group: Group) -> list[Result]:
    """Run the parts of a group: one with its output at once, several at the same time, each shown whole at its end."""
    if len(group) == 1:
        return [run_part(group[0])]
    turn = Lock()

    def run(part: Part) -> Result:
        pieces: list[bytes] = []
        result = run_part(part, pieces.append)
        with turn:
            say(f"{part.target}, which has ended")
            show_now(b"".join(pieces))
        return result

    with ThreadPoolExecutor(len(group)) as pool:
        return list(pool.map(run, group))


def estimate_s(done: list[Result], left: tuple[Group, ...]) -> float:
    """Seconds that the groups left will take if this machine stays as fast as it was so far."""
    known = [result for result in done if not result.skip_reason]
    expected = sum(result.part.seconds for result in known)
    factor = sum(result.seconds for result in known) / expected if expected else 1.0
    return factor * sum(max((part.seconds for part in group if not skip_reason(part)), default=0) for group in left)


def summary(results: list[Result]) -> list[str]:
    """One line per part, and below it one per test that failed and per reason for which tests were skipped."""
    lines = []
    for result in results:
        state = "skipped" if result.skip_reason else "failed" if result.exit_code else "passed"
        counts = ", ".join(f"{number:,} {word}" for word, number in result.tests.counts.items() if number)
        lines.append(
            f"{result.part.target:<11} {state:<8} {result.seconds:5.0f} s  {result.skip_reason or counts}".rstrip()
        )
        lines += [f"{'':<11} failed     {name}" for name in result.tests.failed]
        lines += [f"{'':<11} skipped  {number:>5}    {reason}" for reason, number in result.tests.skips.most_common()]
    return lines


def say(text: str) -> None:
    """A line of our own, at once and between the lines of the parts."""
    sys.stdout.write(f"==> {text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run all parts; exit 1 if one failed."""
    done: list[Result] = []
    for number, group in enumerate(GROUPS):
        minutes = max(1, round(estimate_s(done, GROUPS[number:]) / 60))
        what = "; ".join(f"{part.target}, {part.what}" for part in group)
        first, last, parts = len(done) + 1, len(done) + len(group), sum(map(len, GROUPS))
        which = f"part {first}" if first == last else f"parts {first} to {last}"
        say(f"{which} of {parts}: {what} (all that is left: about {minutes} min)")
        done += run_group(group)
    say("all parts")
    sys.stdout.write("\n".join(summary(done)) + "\n")
    return 1 if any(result.exit_code for result in done) else 0


if __name__ == "__main__":
    raise SystemExit(main())
