"""A channel over a real child process that stands for a host."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.engines.route import Route
from ddp_play.run.host_channel import ProcessChannel, wait_any
from ddp_play.run.host_program import preamble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Reads the program that every channel begins with, says the magic line, and echoes frames.
FAR_END = f"""
import sys, os
data = b""
def read(n):
    global data
    while len(data) < n:
        piece = os.read(0, 65536)
        if not piece: sys.exit(0)
        data += piece
    out, data = data[:n], data[n:]
    return out
{{become}}
read({len(preamble())})
os.write(1, b"welcome to this host\\nDDP-PLAY-CHANNEL 1\\n")
while True:
    while data: data = data[os.write(1, data):]
    data = os.read(0, 65536)
    if not data: sys.exit(0)
"""


@pytest.fixture
def channel() -> Iterator[Callable[..., ProcessChannel]]:
    opened: list[ProcessChannel] = []

    def open_one(become: str = "", *, route: Route | None = None, password: str = "") -> ProcessChannel:
        program = FAR_END.replace("{become}", become)
        words = ("password: ", "BECOME-OK") if become else ("", "")
        there = route or Route("h1", (sys.executable, "-c"), program, *words)
        made = ProcessChannel(there, become_password=password)
        opened.append(made)
        return made

    yield open_one
    for made in opened:
        made.close()


def receive(channel: ProcessChannel, count: int) -> list[Any]:
    frames: list[Any] = []
    deadline = time.monotonic() + 30
    while len(frames) < count and not channel.broken and time.monotonic() < deadline:
        wait_any([channel], 0.2)
        frames += channel.receive()
    return frames


def test_frames_go_there_and_back(channel: Callable[..., ProcessChannel]) -> None:
    made = channel()
    made.send("log", b"\xff\n\x00", rank=3)
    made.send("bye")
    assert receive(made, 2) == [({"t": "log", "rank": 3, "n": 3}, b"\xff\n\x00"), ({"t": "bye"}, b"")]


def test_more_than_a_pipe_holds(channel: Callable[..., ProcessChannel]) -> None:
    made = channel()
    payload = bytes(range(256)) * 1000
    for number in range(4):
        made.send("source", payload, n_th=number)
    frames = receive(made, 4)
    assert [(header["n_th"], body == payload) for header, body in frames] == [(n, True) for n in range(4)]


BECOME = """
sys.stderr.write("[sudo] password: "); sys.stderr.flush()
if read(8) != b"hunter2\\n": sys.exit("Sorry, try again.")
os.write(1, b"BECOME-OK\\n")
"""


def test_a_become_prompt_is_answered_before_the_program_goes(channel: Callable[..., ProcessChannel]) -> None:
    made = channel(BECOME, password="hunter2")
    made.send("hello")
    assert receive(made, 1) == [({"t": "hello"}, b"")]


def test_a_wrong_become_password_breaks_the_channel(channel: Callable[..., ProcessChannel]) -> None:
    made = channel(BECOME, password="hunter3")
    receive(made, 1)
    assert "Sorry, try again." in made.broken


def test_a_broken_channel_says_the_last_words_and_takes_no_more(channel: Callable[..., ProcessChannel]) -> None:
    made = channel(route=Route("h1", ("/bin/sh", "-c"), "echo warning >&2; echo 'no route to host' >&2; exit 255"))
    receive(made, 1)
    assert made.broken == "no route to host"
    made.send("late")
    assert made.receive() == []
    assert made.read_fds() == ()


def test_a_silent_end_has_its_exit_code_or_says_that_it_ended(channel: Callable[..., ProcessChannel]) -> None:
    made = channel(route=Route("h1", ("/bin/sh", "-c"), "exit 3"))
    receive(made, 1)
    assert made.broken.startswith("the channel ended")


def test_closing_ends_the_child(channel: Callable[..., ProcessChannel]) -> None:
    made = channel(route=Route("h1", ("/bin/sh", "-c"), "exec sleep 100"))
    made.close()
    assert made.broken == "closed"
    assert made._process.poll() is not None


def test_waiting_for_nobody_returns() -> None:
    wait_any([], 0.01)
