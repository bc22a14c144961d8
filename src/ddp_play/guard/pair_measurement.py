"""Measurement between this host and a peer: round trip of small messages, then TCP bandwidth in one direction and back.

The first host opens all connections, so that one open port is enough. The receiver counts what arrives after a warm-up.
Data comes from a file in memory and is dropped by the receiving kernel, so that a CPU copies it as rarely as possible.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import time
from typing import Any, Dict, List, Sequence, Tuple

from . import pair_counters
from .network_probe import family_of

CONNECT_S = 4.0
ANSWER_S = 5.0  # for the peer's program to take its part
WARM_UP, LEAST_WINDOW = 0.25, 0.4  # parts of the time: not measured at its start, measured at least
SLACK_S = 3.0  # a busy host begins late
TCP_NOTSENT_LOWAT = 25  # include/uapi/linux/tcp.h
ECHOES, ECHO_S, ECHO_BYTES = 200, 0.5, 64
PIECE = 1 << 20
HELLO = struct.Struct("!32s32sB")  # token, pair, number of the connection
READY, GO = b"ready", b"go!!!"
NO_DATA = "connected, but no data arrived within %g s: large packets may get lost (MTU)"


class PairError(Exception):
    """The measurement has no result. `unmet`: because of what lies between the hosts, as far as this one can tell."""

    def __init__(self, problem: str, *, unmet: bool = True) -> None:
        super().__init__(problem)
        self.problem, self.unmet = problem, unmet


class Pair:
    """What both hosts know of their measurement."""

    def __init__(self, order: Dict[str, Any], token: str) -> None:
        self.name = str(order["pair"])[:32].encode().ljust(32)
        self.token = token[:32].encode().ljust(32)
        self.address, self.port = str(order.get("address", "")), int(order.get("port") or 0)
        self.streams = max(1, min(4, int(order["streams"])))
        self.seconds = max(0.1, min(10.0, float(order["seconds"])))

    def hello(self, number: int) -> bytes:
        """First bytes of a connection."""
        return HELLO.pack(self.token, self.name, number)


def listener(address: str) -> socket.socket:
    """A socket for the peers of all rounds, on a port that the kernel chooses."""
    sock = socket.socket(family_of(address), socket.SOCK_STREAM)
    try:
        sock.bind((address, 0))
        sock.listen(64)
    except OSError:
        sock.close()
        raise
    return sock


def measure_first(pair: Pair, source: str, interface: str) -> Dict[str, Any]:
    """The part of the host that connects: send, then receive. Raises PairError."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(_connected(pair, source, interface, at)) for at in range(1 + 2 * pair.streams)]
        control, out, back = socks[0], socks[1 : 1 + pair.streams], socks[1 + pair.streams :]
        if _exactly(control, len(READY), ANSWER_S) != READY:
            raise PairError("another program answers on this port")
        trips = _echoes(control)
        control.sendall(GO)
        sent = _send(out, pair.seconds)
        received = _receive(back, pair.seconds)
        return {"sent": sent, "received": received, "rtt_ms": trips}


def measure_second(pair: Pair, listening: socket.socket) -> Dict[str, Any]:
    """The part of the host that is connected to: receive, then send. Raises PairError."""
    with contextlib.ExitStack() as stack:
        socks = _accepted(pair, listening, stack)
        control, forth, back = socks[0], socks[1 : 1 + pair.streams], socks[1 + pair.streams :]
        control.sendall(READY)
        _answer_echoes(control)
        received = _receive(forth, pair.seconds)
        sent = _send(back, pair.seconds)
        return {"sent": sent, "received": received}


def _connected(pair: Pair, source: str, interface: str, number: int) -> socket.socket:
    sock = socket.socket(family_of(pair.address), socket.SOCK_STREAM)
    try:
        if interface and interface != "lo":
            with contextlib.suppress(
                OSError
            ):  # old kernels let only root choose the interface; the address decides then
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
        sock.bind((source, 0))
        sock.settimeout(CONNECT_S)
        sock.connect((pair.address, pair.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(pair.hello(number))
    except socket.timeout:
        sock.close()
        raise PairError("no connection within %g s" % CONNECT_S) from None
    except OSError as error:
        sock.close()
        raise PairError(error.strerror or str(error)) from error
    return sock


def _accepted(pair: Pair, listening: socket.socket, stack: contextlib.ExitStack) -> List[socket.socket]:
    """The peer's connections by number. Others, of an earlier round or of somebody else, are closed."""
    wanted = 1 + 2 * pair.streams
    found: Dict[int, socket.socket] = {}
    until = time.monotonic() + CONNECT_S + ANSWER_S
    while len(found) < wanted:
        left_s = until - time.monotonic()
        if left_s <= 0 or not select.select([listening], [], [], left_s)[0]:
            raise PairError("%d of %d connections came within %g s" % (len(found), wanted, CONNECT_S + ANSWER_S))
        sock, _ = listening.accept()
        stack.enter_context(sock)
        with contextlib.suppress(PairError):
            token, name, number = HELLO.unpack(_exactly(sock, HELLO.size, 2.0))
            if (token, name) == (pair.token, pair.name) and number < wanted:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                found[number] = sock
                continue
        sock.close()
    return [found[number] for number in range(wanted)]


def _exactly(sock: socket.socket, size: int, limit_s: float) -> bytes:
    sock.settimeout(limit_s)
    data = b""
    try:
        while len(data) < size:
            piece = sock.recv(size - len(data))
            if not piece:
                raise PairError("the peer closed the connection")
            data += piece
    except socket.timeout:
        raise PairError("connected, but the peer's program did not answer within %g s" % limit_s) from None
    except OSError as error:
        raise PairError(error.strerror or str(error)) from error
    return data


def _echoes(control: socket.socket) -> List[float]:
    """Round trips in ms: least, median, 99th percentile."""
    trips: List[float] = []
    until = time.monotonic() + ECHO_S
    while len(trips) < ECHOES and (len(trips) < 3 or time.monotonic() < until):
        began = time.monotonic()
        control.sendall(bytes(ECHO_BYTES))
        _exactly(control, ECHO_BYTES, ANSWER_S)
        trips.append(1000 * (time.monotonic() - began))
    trips.sort()
    return [trips[0], trips[len(trips) // 2], trips[min(len(trips) - 1, len(trips) * 99 // 100)]]


def _answer_echoes(control: socket.socket) -> None:
    """Send back what comes, until the peer says that it begins."""
    while True:
        start = _exactly(control, len(GO), ANSWER_S)
        if start == GO:
            return
        control.sendall(start + _exactly(control, ECHO_BYTES - len(GO), ANSWER_S))


def _send(socks: Sequence[socket.socket], seconds: float) -> Dict[str, Any]:
    """Send until the receiver closes, which has measured long enough then. Raises PairError if it does so too early."""
    use, began = pair_counters.CpuUse(), time.monotonic()
    until, sending = began + seconds + SLACK_S, list(socks)
    source = _memory_file()
    try:
        for sock in socks:
            sock.setblocking(False)
            with contextlib.suppress(OSError):  # wake up when there is room for a whole piece
                sock.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, PIECE // 2)
        while sending and (left_s := until - time.monotonic()) > 0:
            for sock in select.select([], sending, [], left_s)[1]:
                if not _send_piece(sock, source):
                    sending.remove(sock)
    finally:
        os.close(source)
    passed_s = time.monotonic() - began
    infos = [pair_counters.TcpInfo(sock) for sock in socks]
    for sock in socks:
        _drop_connection(sock)
    if passed_s < LEAST_WINDOW * seconds:
        raise PairError("the peer ended the connection after %.1f of %.1f s" % (passed_s, seconds))
    return {
        "segments": sum(info.segments for info in infos),
        "retransmits": sum(info.retransmits for info in infos),
        "cpu": use.share(),
        "not_offered": max(0.0, 1 - max(info.busy_s for info in infos) / passed_s) if infos[0].busy_s else 0.0,
        "not_taken": max(info.window_limited_s for info in infos) / passed_s,
    }


def _send_piece(sock: socket.socket, source: int) -> bool:
    """Whether the connection is still open."""
    try:
        os.sendfile(sock.fileno(), source, 0, PIECE)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return True


def _drop_connection(sock: socket.socket) -> None:
    """End it at once, without what is still queued."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def _memory_file() -> int:
    fd = os.memfd_create("ddp-play-pair")
    os.ftruncate(fd, PIECE)
    return fd


def _receive(socks: Sequence[socket.socket], seconds: float) -> Dict[str, Any]:
    """Rate of what arrives from the warm-up on. At the end of the time it closes, and the sender stops."""
    errors, window, use = pair_counters.checksum_errors(), _Window(seconds), None
    waiting, buffer = list(socks), bytearray(PIECE)
    until = time.monotonic() + ANSWER_S
    for sock in socks:
        sock.setblocking(False)
    while waiting and (left_s := until - time.monotonic()) > 0:
        ready = select.select(waiting, [], [], left_s)[0]
        if ready and use is None:
            use, until = pair_counters.CpuUse(), time.monotonic() + seconds
        counts = {sock: _drop(sock, buffer) for sock in ready}
        waiting = [sock for sock in waiting if counts.get(sock) != 0]
        window.add(sum(count for count in counts.values() if count > 0))
    infos = [pair_counters.TcpInfo(sock) for sock in socks]
    for sock in socks:
        _drop_connection(sock)
    if use is None or not window.total:
        raise PairError(NO_DATA % ANSWER_S)
    return {
        "mbps": window.mbps(),
        "cpu": use.share(),
        "checksum_errors": max(0, pair_counters.checksum_errors() - errors),
        "out_of_order": sum(info.out_of_order for info in infos),
    }


class _Window:
    """Bytes that arrive between the warm-up and the end of the time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._began = 0.0
        self._marks: List[Tuple[float, int]] = []  # (time, bytes so far) of everything in the window
        self.total = 0

    def add(self, count: int) -> None:
        """So many bytes have arrived now."""
        now = time.monotonic()
        self._began = self._began or now
        self.total += count
        if count and now - self._began >= WARM_UP * self._seconds:
            self._marks = [*self._marks[:1], (now, self.total)]

    def mbps(self) -> float:
        """Rate in the window. Raises PairError if the data ended too early to tell."""
        (start, before), (end, after) = self._marks[0] if self._marks else (0.0, 0), (self._marks or [(0.0, 0)])[-1]
        if end - start < LEAST_WINDOW * self._seconds:
            raise PairError("the data ended early, after %.1f MB" % (self.total / 1e6))
        return 8e-6 * (after - before) / (end - start)


def _drop(sock: socket.socket, buffer: bytearray) -> int:
    """Bytes that the kernel has dropped without a copy; 0 at the end of the connection, -1 if there were none."""
    try:
        return sock.recv_into(buffer, len(buffer), socket.MSG_TRUNC)
    except BlockingIOError:
        return -1
    except OSError:
        return 0  # the sender ends with a reset
