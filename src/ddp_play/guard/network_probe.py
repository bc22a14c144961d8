"""Test connections between the hosts of a run on the chosen addresses, before any rank starts."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from typing import Any, Dict, List, Sequence, Tuple

PATIENCE_S = 5.0
LARGE = 48 * 1024  # several packets even with jumbo frames, and less than the socket buffers of both sides


def family_of(address: str) -> socket.AddressFamily:
    """AF_INET or AF_INET6."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


class Listener:
    """Answers probes on one address until closed; port 0 lets the kernel choose, as it does for ranks."""

    def __init__(self, address: str, port: int = 0) -> None:
        self._sock = socket.socket(family_of(address), socket.SOCK_STREAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._sock.bind((address, port))
        self._sock.listen(256)
        self.port = int(self._sock.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._sock.accept()
            except OSError:
                return
            # one thread each: a peer whose packets are lost must not delay the others
            threading.Thread(target=_echo, args=(peer,), daemon=True).start()

    def close(self) -> None:
        """Stop answering; the port is free when this returns, because ranks may use the same one."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # a thread in accept() would keep a closed socket listening
        self._thread.join(2 * PATIENCE_S)
        self._sock.close()


def _echo(peer: socket.socket) -> None:
    with peer, contextlib.suppress(OSError):
        peer.settimeout(PATIENCE_S)
        while True:
            data = peer.recv(65536)
            if not data:
                return
            peer.sendall(data)


def _exchange(peer: socket.socket, timeout_s: float) -> str:
    """Exchange a few bytes, then more than one packet holds; return the problem, or empty."""
    token = os.urandom(8)
    peer.settimeout(timeout_s)
    peer.sendall(token)
    if peer.recv(64) != token:
        return "another program answers on this port"
    try:
        peer.sendall(bytes(LARGE))
        left = LARGE
        while left:
            data = peer.recv(65536)
            if not data:
                return "the connection ended"
            left -= len(data)
    except socket.timeout:
        return "small packets pass and large ones do not: the MTU differs on the way (ip link show; jumbo frames?)"
    return ""


def connect(
    targets: List[Tuple[str, int]], source: str, timeout_s: float, connect_only: Sequence[int] = ()
) -> List[Dict[str, Any]]:
    """Connect to each (address, port) from `source` and expect an echo; return one row per target that failed.

    For the ports in `connect_only`, where the listener may not echo, a connection is enough.
    """
    results: List[Dict[str, Any]] = []
    lock = threading.Lock()

    def one(address: str, port: int) -> None:
        try:
            with socket.create_connection((address, port), timeout=timeout_s, source_address=(source, 0)) as peer:
                problem = "" if port in connect_only else _exchange(peer, timeout_s)
        except OSError as error:
            problem = error.strerror or str(error)
        if problem:
            with lock:
                results.append({"address": address, "port": port, "problem": problem})

    threads = [threading.Thread(target=one, args=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(2 * timeout_s + 1)
    with lock:
        return sorted(results, key=lambda row: str(row["address"]))
