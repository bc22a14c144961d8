"""A server of names that asks the usual one only after some seconds: `python3 slow_names.py SECONDS`, as root.

It is copied to a host of a lab and runs there alone, so it has the standard library only.
"""

from __future__ import annotations

import contextlib
import select
import socket
import sys
import time
from pathlib import Path
from typing import Any


def usual_server(text: str) -> str:
    """The first server of names in a resolv.conf."""
    return next(line.split()[1] for line in text.splitlines() if line.startswith("nameserver "))


class SlowServer:
    """Questions that wait for their time, and who has asked them."""

    def __init__(self, sock: socket.socket, usual: socket.socket, delay_s: float) -> None:
        self.sock, self.usual, self.delay_s = sock, usual, delay_s
        self.waiting: list[tuple[float, bytes]] = []
        self.senders: dict[bytes, Any] = {}  # by the number of a question

    def step(self, limit_s: float | None = None) -> None:
        """Wait for a question, an answer or the time of one, and hand it on."""
        left_s = max(0.0, self.waiting[0][0] - time.monotonic()) if self.waiting else limit_s
        ready = select.select([self.sock, self.usual], [], [], left_s)[0]
        with contextlib.suppress(OSError):
            if self.sock in ready:
                question, sender = self.sock.recvfrom(4096)
                self.senders[question[:2]] = sender
                self.waiting.append((time.monotonic() + self.delay_s, question))
            if self.usual in ready:
                answer = self.usual.recv(4096)
                self.sock.sendto(answer, self.senders.pop(answer[:2]))
            while self.waiting and self.waiting[0][0] <= time.monotonic():
                self.usual.send(self.waiting.pop(0)[1])


if __name__ == "__main__":
    with socket.socket(type=socket.SOCK_DGRAM) as sock, socket.socket(type=socket.SOCK_DGRAM) as usual:
        sock.bind(("127.0.0.1", 53))
        usual.connect((usual_server(Path("/etc/resolv.conf").read_text(encoding="ascii")), 53))
        server = SlowServer(sock, usual, float(sys.argv[1]))
        while True:
            server.step()
