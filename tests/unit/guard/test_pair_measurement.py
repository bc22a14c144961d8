"""Measurement between two ends over real sockets, and what comes of a peer that hangs, vanishes or is somebody else."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.guard import pair_measurement
from ddp_play.guard.pair_measurement import Pair, PairError, listener, measure_first, measure_second

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = "127.0.0.1"
TOKEN = "0123456789abcdef" * 2


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with listener(HERE) as sock:
        yield sock


@pytest.fixture(autouse=True)
def short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_measurement, "CONNECT_S", 1.0)
    monkeypatch.setattr(pair_measurement, "ANSWER_S", 1.0)


def pair(
    listening: socket.socket, *, name: str = "1.0", token: str = TOKEN, streams: int = 2, seconds: float = 0.3
) -> Pair:
    port = listening.getsockname()[1]
    return Pair({"pair": name, "address": HERE, "port": port, "streams": streams, "seconds": seconds}, token)


class Other:
    """The other end, in a thread."""

    def __init__(self, part: Callable[[], Any]) -> None:
        self.result: Any = None
        self.thread = threading.Thread(target=self._run, args=(part,), daemon=True)
        self.thread.start()

    def _run(self, part: Callable[[], Any]) -> None:
        try:
            self.result = part()
        except (PairError, OSError) as error:
            self.result = error

    def join(self) -> Any:
        self.thread.join(20)
        assert not self.thread.is_alive()
        return self.result


@pytest.mark.parametrize("streams", [1, 4])
def test_both_directions_are_measured(listening: socket.socket, streams: int) -> None:
    both = pair(listening, streams=streams, seconds=1.0)  # a busy machine may give a thread nothing for a third of one
    second = Other(lambda: measure_second(both, listening))
    first = measure_first(both, HERE, "")
    there = second.join()
    for end in (first, there):
        assert end["received"]["mbps"] > 1
        assert end["received"]["checksum_errors"] == 0
        assert end["sent"]["segments"] > 0
        assert 0 <= end["sent"]["not_offered"] <= 1
        assert 0 < end["sent"]["cpu"] <= 1
    least, median, p99 = first["rtt_ms"]
    assert 0 < least <= median <= p99


def test_nobody_listens(listening: socket.socket) -> None:
    gone = pair(listening)
    listening.close()
    with pytest.raises(PairError, match="Connection refused") as error:
        measure_first(gone, HERE, "")
    assert error.value.unmet


def test_a_peer_whose_program_hangs_costs_its_time_limit(listening: socket.socket) -> None:
    began = time.monotonic()
    with pytest.raises(PairError, match="the peer's program did not answer within 1 s"):
        measure_first(pair(listening), HERE, "")
    assert time.monotonic() - began < 5


def test_a_peer_that_does_not_come(listening: socket.socket) -> None:
    with pytest.raises(PairError, match="0 of 5 connections came within 2 s"):
        measure_second(pair(listening), listening)


def test_connections_of_somebody_else_and_of_an_earlier_round_are_closed(listening: socket.socket) -> None:
    strangers = [socket.create_connection(listening.getsockname()) for _ in range(3)]
    strangers[0].sendall(b"GET / HTTP/1.1\r\n" + bytes(64))
    strangers[1].sendall(pair(listening, name="0.9").hello(0))
    strangers[2].sendall(pair(listening, token="f" * 32).hello(0))
    mine = pair(listening, seconds=1.0)
    second = Other(lambda: measure_second(mine, listening))
    assert measure_first(mine, HERE, "")["received"]["mbps"] > 0
    assert "mbps" in second.join()["received"]
    for stranger in strangers:
        stranger.settimeout(5)
        with stranger, contextlib.suppress(ConnectionResetError):
            assert stranger.recv(1) == b""


def test_another_program_on_the_port(listening: socket.socket) -> None:
    held: list[socket.socket] = []

    def serve() -> None:
        for _ in range(5):
            sock, _ = listening.accept()
            held.append(sock)
            sock.sendall(b"SSH-2.0-x\r\n")

    other = Other(serve)
    with pytest.raises(PairError, match="another program answers on this port"):
        measure_first(pair(listening), HERE, "")
    other.join()
    for sock in held:
        sock.close()


def accepted(listening: socket.socket, mine: Pair) -> list[socket.socket]:
    """The connections of the first host, by their numbers."""
    found: dict[int, socket.socket] = {}
    while len(found) < 1 + 2 * mine.streams:
        sock, _ = listening.accept()
        hello = sock.recv(pair_measurement.HELLO.size)
        found[hello[-1]] = sock
    return [found[number] for number in sorted(found)]


def test_a_peer_that_vanishes_in_the_middle_gives_no_number(listening: socket.socket) -> None:
    mine = pair(listening, seconds=10.0)

    def vanish() -> None:
        socks = accepted(listening, mine)
        socks[0].sendall(pair_measurement.READY)
        pair_measurement._answer_echoes(socks[0])
        for sock in socks:
            pair_measurement._drop_connection(sock)

    other = Other(vanish)
    with pytest.raises(PairError, match=r"the peer ended the connection after \d\.\d of 10\.0 s"):
        measure_first(mine, HERE, "")
    other.join()


def test_a_peer_that_sends_nothing_back_gives_no_number(listening: socket.socket) -> None:
    mine = pair(listening)
    held: list[socket.socket] = []

    def stay_silent() -> None:
        held.extend(accepted(listening, mine))
        held[0].sendall(pair_measurement.READY)
        pair_measurement._answer_echoes(held[0])
        pair_measurement._receive(held[1 : 1 + mine.streams], mine.seconds)

    other = Other(stay_silent)
    with pytest.raises(PairError, match="no data arrived within 1 s"):
        measure_first(mine, HERE, "")
    other.join()
    for sock in held:
        sock.close()


def test_the_limits_of_what_an_order_can_ask() -> None:
    wild = Pair({"pair": "x" * 99, "streams": 99, "seconds": 1e9}, TOKEN)
    assert (wild.streams, wild.seconds, len(wild.hello(0))) == (4, 10.0, pair_measurement.HELLO.size)


def test_a_window_needs_data_for_long_enough() -> None:
    window = pair_measurement._Window(10.0)
    window.add(1000)
    with pytest.raises(PairError, match="the data ended early"):
        window.mbps()
