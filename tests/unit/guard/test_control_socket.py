"""Both ends of a control socket, and peers that do not behave."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import control_socket, processes
from ddp_play.guard.control_socket import ControlClient, ControlServer, address
from ddp_play.guard.orders import STOP, Orders
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

ME = [os.geteuid()]


@pytest.fixture
def orders() -> Orders:
    return Orders()


@pytest.fixture
def server(tmp_path: Path, orders: Orders) -> Iterator[ControlServer]:
    made = ControlServer(tmp_path, orders)
    yield made
    made.close()


@pytest.fixture
def client(tmp_path: Path, server: ControlServer) -> Iterator[ControlClient]:
    server.publish({"phase": "prepared"})
    made = ControlClient(tmp_path, ME)
    yield made
    made.close()


def test_a_channel_gets_the_state_and_every_change(server: ControlServer, client: ControlClient) -> None:
    assert client.first_state(5) == {"phase": "prepared"}
    server.publish({"phase": "running"})
    wait_until(lambda: client.read(1.0) == {"phase": "running"})


def test_orders_are_there_when_the_answer_is(client: ControlClient, orders: Orders) -> None:
    client.order(STOP, {"reason": "enough"})
    assert orders.get(STOP) == {"reason": "enough"}


def test_heartbeats_renew_the_lease(client: ControlClient, orders: Orders) -> None:
    orders._seen_s = 0.0
    seen_s = processes.uptime_s()
    client.beat(seen_s)
    wait_until(lambda: orders._seen_s == pytest.approx(seen_s))


def test_the_last_state_comes_before_the_end(server: ControlServer, client: ControlClient) -> None:
    for number in range(100):
        server.publish({"phase": "running", "number": number})
    server.publish({"phase": "ended"})
    server.close()
    wait_until(lambda: client.read(1.0) and not client.is_open)
    assert client.state == {"phase": "ended"}


def test_a_channel_that_does_not_read_delays_no_other(
    tmp_path: Path, server: ControlServer, client: ControlClient
) -> None:
    other = ControlClient(tmp_path, ME)
    for number in range(300):
        server.publish({"phase": "running", "number": number, "padding": "x" * 10_000})
    wait_until(lambda: (other.read(1.0) or {}).get("number") == 299)
    wait_until(lambda: (client.read(1.0) or {}).get("number") == 299)
    other.close()


def test_of_two_states_at_once_the_later_one_is_kept(tmp_path: Path, orders: Orders) -> None:
    """The loop and the fence both publish; a state that is known already is not sent again."""
    between = threading.Event()

    class Slow(ControlServer):
        """Its thread loses the CPU after it has stored the first state."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_published" and value == {"phase": "running"}:
                between.set()
                time.sleep(0.5)

    server = Slow(tmp_path, orders)
    first = threading.Thread(target=server.publish, args=({"phase": "running"},))
    first.start()
    assert between.wait(10)
    server.publish({"phase": "stopping"})
    first.join()
    client = ControlClient(tmp_path, ME)
    assert client.first_state(5) == {"phase": "stopping"}
    client.close()
    server.close()


@pytest.mark.parametrize("words", [b"no json\n", b"[1]\n", b'{"t": "beat"}\n', b"x" * (1 << 21)])
def test_what_does_not_speak_the_protocol_is_dropped(
    tmp_path: Path, server: ControlServer, client: ControlClient, orders: Orders, words: bytes
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as stranger:
        stranger.settimeout(10)
        stranger.connect(address(tmp_path))
        try:
            stranger.sendall(words)
            while stranger.recv(1 << 16):
                pass
        except (BrokenPipeError, ConnectionResetError):
            pass
    client.order(STOP, {})
    assert orders.get(STOP) == {}


def test_without_a_guard_there_is_no_connection(tmp_path: Path, server: ControlServer) -> None:
    server.close()
    with pytest.raises(ConnectionRefusedError):
        ControlClient(tmp_path, ME)


def test_a_guard_that_is_stopped_takes_no_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "ANSWER_S", 0.5)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent:
        silent.bind(address(tmp_path))
        silent.listen(1)
        client = ControlClient(tmp_path, ME)
        began = time.monotonic()
        assert client.first_state(0.2) is None
        with pytest.raises(TimeoutError, match="the guard does not answer orders"):
            client.order(STOP, {})
        assert time.monotonic() - began < 5
        client.close()


def test_a_guard_that_has_ended_is_told_apart_from_one_that_is_stopped(
    server: ControlServer, client: ControlClient
) -> None:
    assert client.first_state(5)
    server.close()
    with pytest.raises(ConnectionError):
        client.order(STOP, {})


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a second user")
def test_other_users_neither_order_nor_pretend(
    tmp_path: Path, server: ControlServer, orders: Orders, client: ControlClient
) -> None:
    name = address(tmp_path)
    script = f"""
import os, socket, sys
os.setuid(65534)
sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
sock.connect({name!r})
try:
    sock.sendall(b'{{"t": "order", "name": "stop", "value": {{}}}}\\n')
    print(sock.recv(100))
except OSError as error:
    print(b"")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "b''"
    client.order("seen", {})
    assert orders.get(STOP) is None
    with pytest.raises(ConnectionRefusedError, match="another user"):
        ControlClient(tmp_path, [65534])


def test_names_differ_by_directory_and_fit(tmp_path: Path) -> None:
    assert address(tmp_path / "1.h1") != address(tmp_path / "1.h2")
    assert len(address(Path("/" + "x" * 3000))) < 100
