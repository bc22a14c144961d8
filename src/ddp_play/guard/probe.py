"""Can the hosts really reach each other on the chosen addresses? Tried with sockets, before any rank starts."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any, Dict, List, Tuple


class Listener:
    """Answers probes on one address until closed; the port is the kernel's choice, so firewalls show."""

    def __init__(self, address: str, port: int = 0) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._sock = socket.socket(family, socket.SOCK_STREAM)
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._sock.bind((address, port))
        self._sock.listen(256)
        self.port = int(self._sock.getsockname()[1])
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                peer, _ = self._sock.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(5)
                try:
                    peer.sendall(peer.recv(64))
                except OSError:
                    continue

    def close(self) -> None:
        """Stop answering."""
        self._sock.close()


def connect(targets: List[Tuple[str, int]], source: str, timeout_s: float) -> List[Dict[str, Any]]:
    """Connect to each target from `source` and expect an echo; one row per target that failed."""
    results: List[Dict[str, Any]] = []
    lock = threading.Lock()

    def one(address: str, port: int) -> None:
        token = os.urandom(8)
        try:
            with socket.create_connection((address, port), timeout=timeout_s, source_address=(source, 0)) as peer:
                peer.settimeout(timeout_s)
                peer.sendall(token)
                problem = "" if peer.recv(64) == token else "something else answers there"
        except OSError as error:
            problem = error.strerror or str(error)
        if problem:
            with lock:
                results.append({"address": address, "port": port, "problem": problem})

    threads = [threading.Thread(target=one, args=target, daemon=True) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout_s + 1)
    with lock:
        return sorted(results, key=lambda row: str(row["address"]))
