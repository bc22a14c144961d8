"""Probes between hosts, over real sockets: reach, large packets and ports."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ddp_play.guard import network_probe
from ddp_play.guard.network_probe import Listener, connect

HERE = "127.0.0.1"


@contextmanager
def server(handle: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port where the first caller is handled like this."""
    with socket.create_server((HERE, 0)) as sock:

        def serve() -> None:
            peer, _ = sock.accept()
            with peer:
                handle(peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(sock.getsockname()[1])
        thread.join(10)


def test_hosts_that_reach_each_other() -> None:
    listener = Listener(HERE)
    try:
        assert connect([(HERE, listener.port)] * 3, HERE, 5) == []
        assert connect([], HERE, 5) == []
    finally:
        listener.close()


def test_nobody_there() -> None:
    with socket.create_server((HERE, 0)) as sock:
        port = int(sock.getsockname()[1])
    assert connect([(HERE, port)], HERE, 5) == [{"address": HERE, "port": port, "problem": "Connection refused"}]


def test_something_else_answers() -> None:
    with server(lambda peer: peer.sendall(b"SSH-2.0-x\r\n" + peer.recv(64))) as port:
        assert connect([(HERE, port)], HERE, 5)[0]["problem"] == "another program answers on this port"


def test_where_a_listener_need_not_echo_a_connection_is_enough() -> None:
    with server(lambda peer: None) as port:
        assert connect([(HERE, port)], HERE, 5, [port]) == []


def test_large_packets_that_do_not_come_through_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that swallows large packets looks like this from the end: a few bytes come back, many do not."""

    def narrow(peer: socket.socket) -> None:
        peer.sendall(peer.recv(64))
        while peer.recv(65536):
            pass

    with server(narrow) as port:
        problem = connect([(HERE, port)], HERE, 0.5)[0]["problem"]
    assert problem.startswith("small packets pass and large ones do not: the MTU differs")


def test_a_listener_can_have_the_very_port_that_ranks_will_use() -> None:
    with socket.create_server((HERE, 0)) as sock:
        port = int(sock.getsockname()[1])
    listener = Listener(HERE, port)
    assert listener.port == port
    assert connect([(HERE, port)], HERE, 5) == []
    listener.close()
    with socket.create_server((HERE, port)):
        pass  # and leaves it free
    assert network_probe.LARGE > 9000


def test_the_family_of_an_address() -> None:
    assert network_probe.family_of("fd00::1") == socket.AF_INET6
    assert network_probe.family_of("127.0.0.1") == socket.AF_INET
