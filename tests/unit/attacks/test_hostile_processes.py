"""A process on a host that sends without an end: what it costs the controller. Real processes, no hosts."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.engines.route import Route
from ddp_play.guard import protocol
from ddp_play.run.host_channel import ProcessChannel, wait_any
from ddp_play.run.host_program import preamble
from tests.waiting import ENOUGH, bytes_written

if TYPE_CHECKING:
    from collections.abc import Iterator

FAR_END = f"""
import os, sys
left = {len(preamble())}
while left:
    left -= len(os.read(0, min(left, 65536)))
{{act}}
"""
ACTS = {
    "an endless header": (
        "os.write(1, {magic})\nwhile True: os.write(1, b'x' * 65536)",
        "a header of more than 64 MiB",
    ),
    "a payload that never ends": (
        'os.write(1, {magic} + b\'{"t":"log","n":99999999999}\\n\')\nwhile True: os.write(1, b\'x\' * 65536)',
        "a frame of more than 16 MiB",
    ),
    "noise without a magic line": ("while True: os.write(1, b'welcome ' * 8192)", ""),
    "noise on stderr": ("while True: os.write(2, b'\\x1b[2Jevil\\n' * 4096)", ""),
}


@pytest.fixture
def opened() -> Iterator[list[ProcessChannel]]:
    channels: list[ProcessChannel] = []
    yield channels
    for channel in channels:
        channel.close()


@pytest.mark.parametrize(("act", "why"), ACTS.values(), ids=ACTS)
def test_a_process_that_never_ends_a_frame_costs_no_memory(opened: list[ProcessChannel], act: str, why: str) -> None:
    program = FAR_END.replace("{act}", act.replace("{magic}", repr(protocol.MAGIC)))
    opened.append(channel := ProcessChannel(Route("h1", (sys.executable, "-c"), program)))
    frames: list[Any] = []
    until = time.monotonic() + 60
    while not frames and (why or bytes_written(channel._process.pid) < ENOUGH) and time.monotonic() < until:
        wait_any([channel], 0.1)
        frames += channel.receive()
        assert len(channel._reader._buffer) < 70 << 20
        assert len(channel._stderr) <= 4096
    assert [frame[0]["t"] for frame in frames] == (["unreadable"] if why else [])
    assert all(why in frame[0]["why"] for frame in frames)
    assert why or bytes_written(channel._process.pid) >= ENOUGH


def test_a_process_that_prints_for_ever_before_become_costs_no_memory(opened: list[ProcessChannel]) -> None:
    route = Route("h1", ("/bin/sh", "-c"), "exec cat /dev/zero", "password:", "BECOME-SUCCESS")
    opened.append(channel := ProcessChannel(route, become_password="hunter2"))
    until = time.monotonic() + 60
    while bytes_written(channel._process.pid) < ENOUGH and time.monotonic() < until:
        wait_any([channel], 0.1)
        channel.receive()
    assert len(channel._head) <= 2 << 20 < ENOUGH <= bytes_written(channel._process.pid)
