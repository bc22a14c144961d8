"""Guards are found by the command lines of real processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ddp_play.guard.running_guards import guards


@pytest.mark.parametrize(
    ("program", "verb", "found"),
    [
        ("guard-1.pyc", "guard", True),
        ("guard-1.pyc", "channel", False),
        ("a.py", "guard", False),
        ("a.pycz", "guard", False),
    ],
)
def test_a_guard_is_a_process_with_its_command_line(tmp_path: Path, program: str, verb: str, found: bool) -> None:
    root = tmp_path / "runs" / "night.0123456789abcdef" / "2.h1"
    argv = [sys.executable, "-c", "import time; print(flush=True); time.sleep(60)", program, verb, str(root)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        place = guards().get(process.pid)
        process.kill()
    assert (place is not None) is found
    if place is not None:
        assert (place.root, place.run_id, place.attempt) == (root, "night", 2)


def test_a_guard_that_ended_is_not_found() -> None:
    with subprocess.Popen([sys.executable, "-c", "", "x.pyc", "guard", "/r"]) as process:
        process.wait()
    deadline = time.monotonic() + 10
    while process.pid in guards():
        assert time.monotonic() < deadline


def test_a_guard_may_be_executed_without_an_interpreter_in_its_command_line(tmp_path: Path) -> None:
    (tmp_path / "guard").write_text("import time\nprint(flush=True)\ntime.sleep(60)\n")
    words = ["guard-1.pyc", "guard", "/r/runs/night/1.h1"]
    with subprocess.Popen(words, executable=sys.executable, cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = guards()
        process.kill()
    assert process.pid in found


def test_processes_that_end_meanwhile_hide_no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = "import time; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", waits, "x.pyc", "guard", "/r"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        monkeypatch.setattr(os, "listdir", lambda _: ["uptime", "4194399", str(process.pid)])
        found = guards()
        process.kill()
    assert list(found) == [process.pid]


def test_a_short_command_line_is_no_guard() -> None:
    with subprocess.Popen(["guard", "60"], executable="/bin/sleep") as process:
        deadline = time.monotonic() + 10
        while Path(f"/proc/{process.pid}/cmdline").read_bytes() != b"guard\x0060\0":  # empty for a moment
            assert time.monotonic() < deadline
        assert process.pid not in guards()
        process.kill()
