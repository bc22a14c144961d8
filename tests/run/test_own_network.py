"""Workers that run tests at the same time do not see each other's leases."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest

from tests.own_network import OwnNetwork

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a network of its own needs root")


def network() -> Path:
    return Path("/proc/thread-self/ns/net").readlink()


def test_a_network_of_its_own_is_kept_and_left() -> None:
    outside = network()
    own, seen = OwnNetwork(), []

    def enter() -> None:
        for _ in range(2):
            with own.entered():
                seen.append(network())
        seen.append(network())

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    inside, again, left = seen
    assert inside == again
    assert left == outside
    assert network() == outside


def test_a_name_that_is_taken_outside_is_free_inside() -> None:
    name = f"\0ddp-play-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as outside, socket.socket(socket.AF_UNIX) as again:
        outside.bind(name)
        with pytest.raises(OSError, match="in use"):
            again.bind(name)
        with OwnNetwork().entered(), socket.socket(socket.AF_UNIX) as inside:
            inside.bind(name)
            with socket.create_server(("127.0.0.1", 0)) as server:
                socket.create_connection(server.getsockname(), timeout=5).close()
