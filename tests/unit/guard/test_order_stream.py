"""Orders on a pipe: taken in order, withdrawn while another is executed."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from ddp_play.guard.order_stream import OrderStream, hung_up
from ddp_play.guard.protocol import encode

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pipe() -> Iterator[list[int]]:
    """Both ends; a test may close the second."""
    ends = list(os.pipe())
    yield ends
    for fd in ends:
        os.close(fd)


def test_orders_are_taken_one_after_the_other(pipe: list[int]) -> None:
    stream = OrderStream(pipe[0])
    assert not stream
    os.write(pipe[1], encode("open", run="r") + encode("source", b"abc"))
    assert stream.receive()
    assert stream.take()[0]["t"] == "open"
    assert stream.take() == ({"t": "source", "n": 3}, b"abc")
    assert not stream


def test_an_order_is_withdrawn_by_a_later_one(pipe: list[int]) -> None:
    stream = OrderStream(pipe[0])
    os.write(pipe[1], encode("prepare") + encode("beat", id=1))
    stream.receive()
    assert stream.take()[0]["t"] == "prepare"
    assert not stream.withdrawn()
    os.write(pipe[1], encode("beat", id=2) + encode("withdraw"))
    assert stream.withdrawn()
    assert stream.withdrawn(), "it stays so until the order is over"
    assert [stream.take()[0]["t"] for _ in range(3)] == ["beat", "beat", "withdraw"]
    assert not stream.withdrawn()


def test_a_controller_that_is_gone_withdraws(pipe: list[int]) -> None:
    stream = OrderStream(pipe[0])
    os.close(pipe.pop())
    assert stream.withdrawn()
    assert not stream.receive()


def test_the_end_of_a_connection_is_seen_while_orders_are_still_to_be_read(pipe: list[int]) -> None:
    os.write(pipe[1], encode("go"))
    assert not hung_up(pipe[0])
    os.close(pipe.pop())
    assert hung_up(pipe[0])
    stream = OrderStream(pipe[0])
    assert stream.receive(), "nothing was taken"
    near, far = socket.socketpair()
    with near:
        assert not hung_up(near.fileno())
        far.close()
        assert hung_up(near.fileno())
