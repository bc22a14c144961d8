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


def usual_server(text: str) -> str:
    """The first server of names in a resolv.conf."""
    return next(line.split()[1] for line in text.splitlines() if line.startswith("nameserver "))


def serve(sock: socket.socket, usual: socket.socket, delay_s: float) -> None:
    """Hand each question on so late, several at a time, and its answer back, until the process ends."""
    waiting: list[tuple[float, bytes]] = []
    senders: dict[bytes, object] = {}  # by the number of a question
    while True:
        left_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready = select.select([sock, usual], [], [], left_s)[0]
        with contextlib.suppress(OSError):
            if sock in ready:
                question, sender = sock.recvfrom(4096)
                senders[question[:2]] = sender
                waiting.append((time.monotonic() + delay_s, question))
            if usual in ready:
                answer = usual.recv(4096)
                sock.sendto(answer, senders.pop(answer[:2]))  # type: ignore[arg-type]
            while waiting and waiting[0][0] <= time.monotonic():
                usual.send(waiting.pop(0)[1])


if __name__ == "__main__":
    with socket.socket(type=socket.SOCK_DGRAM) as sock, socket.socket(type=socket.SOCK_DGRAM) as usual:
        sock.bind(("127.0.0.1", 53))
        usual.connect((usual_server(Path("/etc/resolv.conf").read_text(encoding="ascii")), 53))
        serve(sock, usual, float(sys.argv[1]))
