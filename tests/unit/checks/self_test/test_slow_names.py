"""A server of names that hands questions on late."""

from __future__ import annotations

import contextlib
import select
import socket
import time

import pytest

from ddp_play.checks.self_test.slow_names import SlowServer, usual_server


def test_the_usual_server_is_the_first_of_the_file() -> None:
    assert usual_server("search x\nnameserver 127.0.0.11\nnameserver 10.0.0.1\n") == "127.0.0.11"
    with pytest.raises(StopIteration):
        usual_server("search x\n")


def bound(stack: contextlib.ExitStack) -> socket.socket:
    sock = stack.enter_context(socket.socket(type=socket.SOCK_DGRAM))
    sock.bind(("127.0.0.1", 0))
    sock.settimeout(20)
    return sock


def test_questions_are_answered_late_each_to_its_sender() -> None:
    with contextlib.ExitStack() as stack:
        sock, usual, far, one, other = (bound(stack) for _ in range(5))
        usual.connect(far.getsockname())
        server, began = SlowServer(sock, usual, 0.3), time.monotonic()
        one.sendto(b"\0\1first", sock.getsockname())
        other.sendto(b"\0\2second", sock.getsockname())
        while not select.select([far], [], [], 0)[0]:
            server.step(20)
        assert time.monotonic() - began >= 0.3
        while len(server.senders) != 0 or server.waiting:
            while select.select([far], [], [], 0)[0]:
                question, sender = far.recvfrom(512)
                far.sendto(question + b"!", sender)
            server.step(20)
        assert (one.recv(512), other.recv(512)) == (b"\0\1first!", b"\0\2second!")
