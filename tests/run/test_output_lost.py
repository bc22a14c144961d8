"""Output that takes nothing, and ranks that print without end: runs go on, and say what is not shown."""

from __future__ import annotations

import resource
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Play

pytestmark = [pytest.mark.dist, pytest.mark.runner]

FEW = ["python", "-u", "-c", "import time\nfor i in range(10): print('line', i); time.sleep(0.1)"]
MANY = ["python", "-c", "import os\nfor i in range(1000): os.write(1, (b'x' * 60 + b'\\n') * 1000)"]


def piped(play: Play, words: str, end: str) -> tuple[int, str]:
    """Exit code and standard error of ddp-play with its output redirected by a shell."""
    program = shlex.quote(str(Path(sys.executable).with_name("ddp-play")))
    script = f"{program} {words} {end}; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=play.cwd, env=play.env(), capture_output=True, text=True, timeout=90, check=False,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    "end",
    [
        *(">/dev/full", "| head -1", ">&-", ">/dev/full 2>&1"),
        *(pytest.param(end, marks=pytest.mark.long) for end in ("2>&1 | head -1", "2>/dev/full")),
    ],
)
def test_a_run_goes_on_and_its_exit_code_counts(play: Play, end: str) -> None:
    script = FEW[-1].replace("10", "40")  # also a view that stands still for a second has lines after head's end
    play.job({"command": [*FEW[:-1], script + "\nraise SystemExit(7)"], "check": "none"})
    code, err = piped(play, f"run job.yml -i {LOCAL}", end)
    assert code == 7, err
    assert play.document()["exit_code"] == 7
    if end in (">/dev/full", "| head -1"):
        assert err.count("standard output takes no more") == 1
        assert f"ddp-play logs {play.newest().name} has all of it" in err


def test_characters_that_the_encoding_of_the_output_lacks_are_escaped(play: Play) -> None:
    """One of them ended the view with 70, while the job went on."""
    play.environment["PYTHONIOENCODING"] = "ascii"
    block = ["python", "-c", "import os; os.write(1, b'\\xe2\\x96\\x88 50 %\\n')"]
    done = play("run", play.job({"command": block, "check": "none"}), "-i", LOCAL)
    assert done.code == 0, done.err
    assert "localhost:0: \\u2588 50 %\n" in done.out


def test_a_full_standard_output_is_named(play: Play) -> None:
    assert play("run", play.job({"command": FEW, "check": "none"}), "-i", LOCAL).code == 0
    for words in ("ps", "ps --json", "logs -", "results -"):
        code, err = piped(play, words, ">/dev/full")
        assert code == 70, words
        assert "standard output takes no more" in err, words
        assert piped(play, words, ">&-")[0] == 0, words


@pytest.mark.long
def test_a_million_lines_take_little_time_and_memory(play: Play) -> None:
    job = play.job({"command": MANY, "check": "none"})
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (play.cwd / "out").open("wb") as out:
        child = subprocess.Popen(
            [str(Path(sys.executable).with_name("ddp-play")), "run", str(job), "-i", str(LOCAL)],
            env=play.env(), cwd=play.cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert child.wait(90) == 0
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (play.cwd / "out").read_bytes().count(b"\n") == 1_000_000
    assert used.ru_utime - before.ru_utime < 30, "seconds of a processor; one line after the other by rich took 52"
    begun = time.monotonic()
    listed = play("logs", "-", "--rank", "1", "--grep", "nothing")
    assert (listed.code, listed.out) == (0, "")
    assert time.monotonic() - begun < 30
