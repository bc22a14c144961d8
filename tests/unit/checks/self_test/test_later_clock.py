"""A Python with another clock, started as a wrapper of the host's Python starts it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from ddp_play.checks.self_test import later_clock
from ddp_play.checks.self_test.later_clock import started_with_code


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["-I", "-S", "-c", "pass", "x", "-c"], ("pass", ["x", "-c"])),
        (["-c", "pass"], ("pass", [])),
        (["script.py", "-c", "pass"], None),
        (["-c"], None),
        ([], None),
    ],
)
def test_the_code_of_a_command_line(words: list[str], found: tuple[str, list[str]] | None) -> None:
    assert started_with_code(words) == found


def output(*words: str) -> str:
    command = [sys.executable, "-I", later_clock.__file__, "5", *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout


def test_code_sees_the_later_clock_and_its_arguments() -> None:
    before = time.time()
    clock, arguments = output("-I", "-S", "-c", "import sys, time; print(time.time(), sys.argv)", "one").split(" ", 1)
    assert 5 <= float(clock) - before < 35
    assert arguments == "['-c', 'one']\n"


def test_anything_else_is_the_usual_interpreter() -> None:
    assert output("--version").startswith("Python 3.")
