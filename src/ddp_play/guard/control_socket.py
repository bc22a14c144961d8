"""Control socket of a guard: orders and heartbeats in, its state out, without a file.

It is an abstract Unix socket like a lease, one JSON object per line in both directions. The guard sends its state after
the connection and after every change; it answers each order. The kernel tells each end the user of the other one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from .peer_credentials import peer_of
from .protocol import PROTOCOL, protocol_problem

if TYPE_CHECKING:
    from pathlib import Path

    from .orders import Orders

# The guard answers orders from memory: if an answer is late, its process is stopped or has no CPU time.
ANSWER_S = 5.0
MAX_LINE, READ_SIZE = 1 << 20, 1 << 16


def address(root: Path) -> str:
    """Name of the socket of the guard that owns this attempt directory, whose path contains the run's token."""
    import hashlib

    return "\0ddp-play/guard-%s" % hashlib.sha256(os.fsencode(str(root))).hexdigest()[:32]


def _line(message: Dict[str, Any]) -> bytes:
    return json.dumps(message, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


class _Lines:
    """Complete lines of a byte stream, each a JSON object."""

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> List[Dict[str, Any]]:
        """Messages that `data` completes. Raises ValueError for anything else."""
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if len(self._buffer) > MAX_LINE:
            raise ValueError("a line without end")
        return [dict(json.loads(line)) for line in lines]


class _Peer:
    """One connected channel. Of states it has not read yet only the newest is kept."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.lines = _Lines()
        self.answers = b""
        self.state: Optional[bytes] = None
        self._out = b""

    @property
    def waiting(self) -> bool:
        """Whether something is left to send."""
        return bool(self._out or self.answers or self.state)

    def send(self) -> None:
        """Send as much as fits. Raises OSError."""
        while self.waiting:
            if not self._out:
                self._out, self.answers, self.state = self.answers + (self.state or b""), b"", None
            try:
                self._out = self._out[self.sock.send(self._out) :]
            except BlockingIOError:
                return


class ControlServer:
    """Guard's end, in its own thread, so that it answers while the guard waits for the disk or the engine."""

    def __init__(self, root: Path, orders: Orders) -> None:
        """Listen. Raises OSError, for example if the name is taken."""
        self._orders = orders
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(address(root))
            self._listener.listen(16)
        except OSError:
            self._listener.close()
            raise
        self._wake_out, self._wake_in = socket.socketpair()
        for end in (self._listener, self._wake_out, self._wake_in):
            end.setblocking(False)
        self._publishing = threading.Lock()
        self._published: Dict[str, Any] = {}
        self._state: Optional[bytes] = None
        self._peers: Dict[int, _Peer] = {}
        self._closing = False
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._serve, name="control", daemon=True)
        self._thread.start()

    def publish(self, state: Dict[str, Any]) -> None:
        """Send this state to all channels, now and to each that connects; callable from any thread."""
        with self._publishing:  # else the older of two states could stay as the one to send
            if state == self._published:
                return
            self._published, self._state = state, _line({"t": "state", "state": state})
        self._wake()

    @property
    def attended(self) -> bool:
        """Whether a channel is connected: its orders and heartbeats come this way and not as files."""
        return bool(self._peers)

    def close(self) -> None:
        """Send what is left and end the thread."""
        self._closing = True
        self._wake()
        self._thread.join(1.0)

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # the pipe is full: the thread is woken already
            self._wake_in.send(b"x")

    def _serve(self) -> None:
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_out, selectors.EVENT_READ)
        while not self._closing:
            for key, _ in self._selector.select():
                self._handle(key.fileobj)
            self._send()
        self._accept(wait_s=0.0)  # one that connected just before
        self._offer()
        self._send()
        for peer in list(self._peers.values()):
            self._drop(peer)
        self._selector.close()
        for sock in (self._listener, self._wake_out, self._wake_in):
            sock.close()

    def _handle(self, ready: Any) -> None:
        if ready is self._listener:
            self._accept()
        elif ready is self._wake_out:
            with contextlib.suppress(OSError):
                self._wake_out.recv(4096)
            self._offer()
        elif ready.fileno() in self._peers:
            self._read(self._peers[ready.fileno()])

    def _offer(self) -> None:
        for peer in self._peers.values():
            peer.state = self._state

    def _accept(self, wait_s: float = 0.05) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            time.sleep(wait_s)  # no descriptor is free: the listener stays readable
            return
        if peer_of(sock).uid not in (0, os.geteuid()):
            sock.close()
            return
        sock.setblocking(False)
        peer = self._peers[sock.fileno()] = _Peer(sock)
        peer.state = self._state
        self._selector.register(sock, selectors.EVENT_READ)

    def _read(self, peer: _Peer) -> None:
        try:
            data = peer.sock.recv(READ_SIZE)
            for message in peer.lines.feed(data):
                self._take(peer, message)
        except BlockingIOError:
            return
        except (OSError, ValueError, KeyError, TypeError):  # it went away, or does not speak this protocol
            data = b""
        if not data:
            self._drop(peer)

    def _take(self, peer: _Peer, message: Dict[str, Any]) -> None:
        if message.get("t") == "beat":
            self._orders.renew(float(message["seen"]))
        elif message.get("t") == "order":
            self._orders.give(str(message["name"]), dict(message["value"]))
            peer.answers += _line({"t": "taken", "name": message["name"]})
        elif message.get("t") == "hello" and (why := protocol_problem(message)):
            raise ValueError(why)

    def _send(self) -> None:
        for peer in list(self._peers.values()):
            try:
                peer.send()
            except OSError:
                self._drop(peer)
                continue
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.waiting else 0)
            self._selector.modify(peer.sock, events)

    def _drop(self, peer: _Peer) -> None:
        self._peers.pop(peer.sock.fileno(), None)
        self._selector.unregister(peer.sock)
        peer.sock.close()


class ControlClient:
    """A channel's end. `state` is the newest that the guard sent; `is_open` turns False when the guard has ended."""

    def __init__(self, root: Path, owners: List[int]) -> None:
        """Connect to the guard of this directory, which must belong to one of `owners`. Raises OSError."""
        self._lines = _Lines()
        self._taken: List[str] = []
        self.state: Optional[Dict[str, Any]] = None
        self.is_open = True
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._sock.setblocking(False)
            self._sock.connect(address(root))
            if peer_of(self._sock).uid not in owners:
                raise ConnectionRefusedError("the control socket belongs to another user")
        except OSError:
            self._sock.close()
            raise

    def fileno(self) -> int:
        """Descriptor that becomes readable when the guard sends something."""
        return self._sock.fileno()

    def close(self) -> None:
        """End the connection."""
        self.is_open = False
        self._sock.close()

    def read(self, timeout_s: float = 0.0) -> Optional[Dict[str, Any]]:
        """Take what the guard has sent, wait at most `timeout_s` for it, and return the newest state."""
        self._read(timeout_s)
        return self.state

    def _read(self, timeout_s: float) -> None:
        if not self.is_open:
            return
        try:
            while select.select([self._sock], [], [], timeout_s)[0]:
                data = self._sock.recv(READ_SIZE)
                if not data:
                    self.close()
                    return
                for message in self._lines.feed(data):
                    self._keep(message)
                timeout_s = 0.0
        except (OSError, ValueError):
            self.close()

    def _keep(self, message: Dict[str, Any]) -> None:
        if message.get("t") == "state":
            self.state = message["state"]
        elif message.get("t") == "taken":
            self._taken.append(message["name"])

    def first_state(self, timeout_s: float) -> Optional[Dict[str, Any]]:
        """The state, when it has come; None if it does not come in time."""
        self._until(lambda: self.state is not None, timeout_s)
        return self.state

    def hello(self) -> None:
        """Tell the guard the protocol that this end speaks with it: its own one, if this end knows it."""
        theirs = (self.state or {}).get("protocol", 0)
        self._send({"t": "hello", "protocol": min(PROTOCOL, theirs if isinstance(theirs, int) else PROTOCOL)})

    def beat(self, seen_s: float) -> None:
        """Renew the lease. Raises OSError."""
        self._send({"t": "beat", "seen": seen_s})

    def order(self, name: str, value: Dict[str, Any]) -> None:
        """Give an order, and wait until the guard has it. Raises OSError, ConnectionError if the guard has ended."""
        self._taken.clear()
        self._send({"t": "order", "name": name, "value": value})
        self._until(lambda: name in self._taken, ANSWER_S)
        if name not in self._taken:
            silent = TimeoutError("the guard does not answer orders: its process is stopped or has no CPU time")
            raise silent if self.is_open else ConnectionResetError("the guard has ended")

    def _until(self, condition: Any, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while self.is_open and not condition() and time.monotonic() < deadline:
            self.read(deadline - time.monotonic())

    def _send(self, message: Dict[str, Any]) -> None:
        self._sock.setblocking(True)
        self._sock.settimeout(ANSWER_S)
        try:
            self._sock.sendall(_line(message))
        finally:
            self._sock.setblocking(False)
