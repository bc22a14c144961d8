"""A Python whose clock is some seconds ahead: `python3 -I later_clock.py SECONDS OPTIONS... -c CODE ARGUMENTS...`.

It fakes the clock of one program, as that of a container cannot be set. It is copied to a host of a lab and runs there
alone, so it has the standard library only.
"""

from __future__ import annotations

import os
import sys
import time


def started_with_code(words: list[str]) -> tuple[str, list[str]] | None:
    """The code of `-c` and what follows it; None if the interpreter was started in another way."""
    for at, word in enumerate(words):
        if word == "-c" and at + 1 < len(words):
            return words[at + 1], words[at + 2 :]
        if not word.startswith("-"):
            return None
    return None


def main(ahead_s: float, words: list[str]) -> None:
    """Run what the interpreter was given, with the other clock where that is code."""
    found = started_with_code(words)
    if found is None:
        os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - the interpreter as it was called
    code, arguments = found
    usual = time.time
    time.time = lambda: usual() + ahead_s
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - what -c means


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
