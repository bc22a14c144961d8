"""Limits of time and size around real processes, started as Ansible's connection plugins start them."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.ansible.bounded_execution import ANSWER_S, NoAnswer, answer_limit_s, bounded
from ddp_play.errors import UsageError
from tests.run.conftest import alive
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

ENDLESS = [sys.executable, "-c", "while True: print('x' * 4096)"]
COPY = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.stderr.write('also')"


def start(command: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def read_to_the_end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    while process.stdout.read() != b"":
        pass


def as_ssh_does(command: list[str]) -> tuple[int, bytes]:
    """Read without blocking until the process has ended, as the ssh plugin does."""
    process = start(command)
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    out = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                chunk = process.stdout.read()
                if chunk == b"":
                    selector.unregister(key.fileobj)
                out += chunk
    close(process)
    return process.wait(), out


def as_local_does(command: list[str], given: bytes = b"") -> tuple[int, bytes, bytes]:
    """Write the input and read until the end, as the local plugin does."""
    process = start(command)
    out, err = process.communicate(given)
    return process.returncode, out, err


def close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def test_what_answers_in_time_is_passed_on_whole() -> None:
    given = os.urandom(300_000)
    handler = signal.getsignal(signal.SIGALRM)
    with bounded(30):
        assert as_local_does([sys.executable, "-c", COPY], given) == (0, given, b"also")
        assert as_ssh_does(["sh", "-c", "head -c 300000 /dev/zero; exit 3"]) == (3, bytes(300_000))
    assert signal.getsignal(signal.SIGALRM) is handler
    assert subprocess.Popen.__name__ == "Popen"
    assert subprocess.Popen.__module__ == "subprocess"


@pytest.mark.parametrize("read", [as_ssh_does, as_local_does])
def test_a_process_without_an_answer_is_ended_and_what_it_said_is_quoted(read: object) -> None:
    assert callable(read)
    script = "import os, time; print(os.getpid(), flush=True); os.write(2, b'still at /mnt/data\\n'); time.sleep(600)"
    began = time.monotonic()
    with pytest.raises(NoAnswer) as caught, bounded(5.0):
        read([sys.executable, "-c", script])
    assert time.monotonic() - began < 30
    assert caught.value.message.startswith("it did not answer within 5 s")
    if read is as_local_does:  # the other reads no stderr
        assert caught.value.message.endswith("it said: still at /mnt/data")


@pytest.mark.parametrize("read", [as_ssh_does, as_local_does])
def test_a_process_that_prints_without_end_is_ended(read: object) -> None:
    assert callable(read)
    with pytest.raises(NoAnswer) as caught, bounded(60, max_bytes=1 << 20):
        read(ENDLESS)
    assert caught.value.message == "it sent more than 1 MiB instead of an answer"


def test_processes_are_ended_that_do_not_read_their_input_or_ignore_sigterm(tmp_path: Path) -> None:
    """The shell ignores SIGTERM, its child holds the pipe of the input, and the input does not fit in the pipe."""
    pids = tmp_path / "pids"
    script = f"sleep 600 & echo $! $$ > {pids}; trap '' TERM; while :; do sleep 0.1; done"
    with pytest.raises(NoAnswer), bounded(0.7):
        as_local_does(["sh", "-c", script], bytes(1 << 20))
    child, shell = map(int, pids.read_text().split())
    wait_until(lambda: not alive(child) and not alive(shell), what="both have ended")


def test_an_error_of_the_plugin_at_the_limit_does_not_hide_it() -> None:
    """The ssh plugin closes a pipe whose reader is gone, and would try again."""
    with pytest.raises(NoAnswer), bounded(0.5):
        close_and_try_again()


def close_and_try_again() -> None:
    process = start(["sleep", "600"])
    try:
        read_to_the_end(process)
    except NoAnswer:
        raise BrokenPipeError from None


def test_the_limit_of_the_task_around_it_stays_in_force() -> None:
    rang: list[bool] = []
    handler = signal.signal(signal.SIGALRM, lambda *_: rang.append(True))
    of_pytest, _ = signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with bounded(30):
            pass
        assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= 0.5
        wait_until(lambda: rang == [True], what="the outer limit")
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, of_pytest)


def test_the_caller_may_set_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DDP_PLAY_ANSWER_S", raising=False)
    assert answer_limit_s() == ANSWER_S
    monkeypatch.setenv("DDP_PLAY_ANSWER_S", "600")
    assert answer_limit_s() == 600
    for wrong in ("soon", "0", "-1", "nan", "1e9"):
        monkeypatch.setenv("DDP_PLAY_ANSWER_S", wrong)
        with pytest.raises(UsageError, match="DDP_PLAY_ANSWER_S"):
            answer_limit_s()
