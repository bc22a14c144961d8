"""`make test`: every part that CI runs, each with its place and estimate, and one line per part at the end.

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
from dataclasses import dataclass, field
from pathlib import Path

from tests.engine import answers, may_install

ROOT = Path(__file__).resolve().parent.parent

_CLOSING = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+, )*\d+ [a-z]+) in \d+(?:\.\d+)?s\b")
_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] (?:[^:]+:\d+|[^:]+): (.*)$")
_COUNTED = ("passed", "failed", "error", "errors", "skipped")


@dataclass(frozen=True)
class Part:
    """One target of the Makefile; `seconds` were measured on two cores (a slow machine)."""

    target: str
    what: str
    seconds: int
    engine: bool = False


PARTS = (
    Part("check", "format, lint, types, import contracts, unit and content tests", 300),
    Part("run-tests", "gloo ranks, whole runs and faults on this machine", 900),
    Part("slurm-tests", "whole runs on a Slurm cluster of three nodes on this machine", 200),
    Part("wheel-demo", "the demo from a wheel in a clean environment", 120),
    Part("lab-tests", "a lab of real hosts as containers", 1300, engine=True),
    Part("molecule", "roles on container hosts", 280, engine=True),
)


@dataclass(frozen=True)
class Result:
    """How one part ended; `skip_reason` is empty unless the whole part was skipped."""

    part: Part
    exit_code: int
    seconds: float
    counts: Counter[str] = field(default_factory=Counter)
    skips: Counter[str] = field(default_factory=Counter)
    skip_reason: str = ""


def skip_reason(part: Part) -> str:
    """Why a part cannot run here; empty if it can, or if its absence must be a failure (DDP_PLAY_REQUIRE_LAB=1)."""
    if not part.engine or os.environ.get("DDP_PLAY_REQUIRE_LAB") == "1" or answers():
        return ""
    return may_install()


def count_tests(line: str, counts: Counter[str], skips: Counter[str]) -> None:
    """Add what one line of pytest's output says: its closing line, or a reason for skipping."""
    if closing := _CLOSING.match(line):
        for number, word in (pair.split() for pair in closing[1].split(", ")):
            if word in _COUNTED:
                counts[word.removesuffix("s")] += int(number)
    elif skipped := _SKIPPED.match(line):
        skips[skipped[2].strip()] += int(skipped[1])


def run_part(part: Part) -> Result:
    """Run a part's target, repeat its output and count its tests."""
    if reason := skip_reason(part):
        return Result(part, 0, 0.0, skip_reason=reason)
    started = time.monotonic()
    counts: Counter[str] = Counter()
    skips: Counter[str] = Counter()
    options = f"{os.environ.get('PYTEST_ADDOPTS', '')} -rs".strip()
    make = shlex.split(os.environ.get("MAKE", "make"))
    with subprocess.Popen(
        [*make, "--no-print-directory", part.target],
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": options},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as child:
        assert child.stdout is not None
        rest = b""
        # in pieces as they come, so that each of pytest's dots is seen at once
        while data := os.read(child.stdout.fileno(), 1 << 16):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                count_tests(line.decode(errors="replace").rstrip(), counts, skips)
        count_tests(rest.decode(errors="replace"), counts, skips)
    return Result(part, child.returncode, time.monotonic() - started, counts, skips)


def estimate_s(done: list[Result], left: tuple[Part, ...]) -> float:
    """Seconds that the parts left will take if this machine stays as fast as it was so far."""
    known = [result for result in done if not result.skip_reason]
    expected = sum(result.part.seconds for result in known)
    factor = sum(result.seconds for result in known) / expected if expected else 1.0
    return factor * sum(part.seconds for part in left if not skip_reason(part))


def summary(results: list[Result]) -> list[str]:
    """One line per part, and below it one per reason for which its tests were skipped."""
    lines = []
    for result in results:
        state = "skipped" if result.skip_reason else "failed" if result.exit_code else "passed"
        counts = ", ".join(f"{number:,} {word}" for word, number in result.counts.items() if number)
        lines.append(
            f"{result.part.target:<11} {state:<8} {result.seconds:5.0f} s  {result.skip_reason or counts}".rstrip()
        )
        lines += [f"{'':<11} skipped  {number:>5}    {reason}" for reason, number in result.skips.most_common()]
    return lines


def say(text: str) -> None:
    """A line of our own, at once and between the lines of the parts."""
    sys.stdout.write(f"==> {text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run all parts; exit 1 if one failed."""
    done: list[Result] = []
    for number, part in enumerate(PARTS, start=1):
        minutes = max(1, round(estimate_s(done, PARTS[number - 1 :]) / 60))
        say(f"part {number} of {len(PARTS)}: {part.target}, {part.what} (all that is left: about {minutes} min)")
        done.append(run_part(part))
    say("all parts")
    sys.stdout.write("\n".join(summary(done)) + "\n")
    return 1 if any(result.exit_code for result in done) else 0


if __name__ == "__main__":
    raise SystemExit(main())
