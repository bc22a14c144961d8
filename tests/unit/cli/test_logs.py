"""Which lines and bytes of the ranks' logs `ddp-play logs` prints."""

from __future__ import annotations

import fcntl
import json
import shlex
import subprocess
import sys
import threading
import time

import pytest
from typer.testing import CliRunner, Result

from ddp_play.bundle.paths import RunPaths, read_json, write_json
from ddp_play.cli.main import app
from tests.unit.build import hosts, plan
from tests.unit.cli.own_process import run_command, unread_pipe
from tests.unit.cli.run_directories import make_run


def logs(*words: str) -> Result:
    return CliRunner().invoke(app, ["logs", "calm-otter-1", *words])


@pytest.fixture(autouse=True)
def _run() -> None:
    paths = make_run(logs=(b"loss 2\nloss 1\n", b"error: no disk\nlast"))
    paths.times(0).write_text(f"{time.time() - 3600:.0f} 0\n{time.time():.0f} 7\n")


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ((), ["h1:0: loss 2", "h1:0: loss 1", "h2:1: error: no disk", "h2:1: last"]),
        (("--rank", "1"), ["h2:1: error: no disk", "h2:1: last"]),
        (("--host", "h1"), ["h1:0: loss 2", "h1:0: loss 1"]),
        (("--grep", "1$|error"), ["h1:0: loss 1", "h2:1: error: no disk"]),
        (("--since", "10m", "--rank", "0"), ["h1:0: loss 1"]),
        (("--attempt", "1", "--rank", "0"), ["h1:0: loss 2", "h1:0: loss 1"]),
    ],
)
def test_selected_lines(words: tuple[str, ...], lines: list[str]) -> None:
    assert logs(*words).stdout.splitlines() == lines


def test_raw_bytes_and_paths() -> None:
    assert logs("--raw", "--rank", "1").stdout_bytes == b"error: no disk\nlast"
    paths = json.loads(logs("--json").stdout)
    assert [path.rpartition("/")[2] for path in paths.values()] == ["rank-0.log", "rank-1.log"]


@pytest.mark.parametrize("torn", [b"190", b"1900000000 7 8", b"\xff\xfe 3", b"x y", b"1900000000 x"])
def test_times_that_a_crash_has_torn_are_left_out(torn: bytes) -> None:
    """The command ended with the wish for a report to the authors."""
    times = RunPaths.of("calm-otter-1").times(0)
    times.write_bytes(torn + b"\n" + times.read_bytes() + torn)
    done = logs("--since", "10m", "--rank", "0")
    assert (done.exit_code, done.stdout.splitlines()) == (0, ["h1:0: loss 1"])


def test_a_log_that_is_gone_is_no_crash() -> None:
    RunPaths.of("calm-otter-1").log(1).unlink()
    assert logs("--raw", "--rank", "1").exit_code == 64
    assert logs("--since", "10m", "--rank", "1").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rank", "7"), "has ranks 0 to 1, not 7"),
        (("--host", "h9"), "has no host h9"),
        (("--attempt", "2"), "has attempts 1 to 1, not 2"),
        (("--grep", "("), "is not a valid regular expression"),
        (("--since", "soon"), "--since:"),
        (("--raw",), "--raw prints one rank's log"),
    ],
)
def test_selections_that_do_not_exist(words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    done = logs(*words)
    assert done.exit_code == 64
    assert message in done.stderr + capsys.readouterr().err


def test_follow_waits_for_the_plan_of_a_run_that_is_starting() -> None:
    paths = make_run(status="starting", logs=(b"hello\n", b""))
    paths.plan.unlink()
    with paths.lock.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)

        def give_plan_and_end() -> None:
            write_json(paths.plan, plan(*hosts(2)).to_json())
            write_json(paths.run, {**read_json(paths.run), "status": "succeeded"})
            handle.close()

        planned = threading.Timer(0.3, give_plan_and_end)
        planned.start()
        done = logs("-f")
        planned.join()
    assert (done.exit_code, done.stdout) == (0, "h1:0: hello\n")
    paths.plan.unlink()
    assert logs("-f").exit_code == 64  # nobody will write one


@pytest.mark.parametrize("words", [(), ("--raw", "--rank", "0"), ("--json",)])
def test_a_reader_that_has_ended_is_no_failure(words: tuple[str, ...]) -> None:
    with unread_pipe() as pipe:
        done = run_command("logs", "-", *words, stdout=pipe)
    assert (done.returncode, done.stderr) == (0, b"")


def test_follow_says_that_the_run_has_no_supervisor() -> None:
    make_run(status="running", logs=(b"hello\n", b""))
    done = logs("-f")
    assert (done.exit_code, done.stdout) == (70, "h1:0: hello\n")
    assert "run calm-otter-1 has no supervisor any more; its ranks may go on" in done.stderr
    assert logs().exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--rank", "7"), "run calm-otter-1 has ranks 0 to 1, not 7"),
        (("--host", "h9"), "run calm-otter-1 has no host h9"),
        (("--raw", "--rank", "0"), "ddp-play results calm-otter-1 says what is missing"),
    ],
)
def test_messages_about_an_earlier_attempt_name_the_run(words: tuple[str, ...], message: str) -> None:
    earlier = make_run(attempt=2).attempt(1)
    earlier.create()
    write_json(earlier.plan, plan(*hosts(2)).to_json())
    done = logs("--attempt", "1", *words)
    assert done.exit_code == 64
    assert message in done.stderr


@pytest.mark.parametrize("words", [("--raw", "--rank", "1"), ("--rank", "1")])
def test_a_closed_standard_output(words: tuple[str, ...]) -> None:
    line = shlex.join([sys.executable, "-m", "ddp_play", "logs", "-", *words])
    done = subprocess.run(["bash", "-c", f"{line} >&-"], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [["--grep", "x"], ["--since", "1m"], ["-f"]])
def test_a_raw_log_is_whole(words: list[str]) -> None:
    make_run("night", logs=(b"a\n",))
    done = CliRunner().invoke(app, ["logs", "night", "--rank", "0", "--raw", *words])
    assert (done.exit_code, "--raw prints the whole log" in done.stderr) == (64, True)
