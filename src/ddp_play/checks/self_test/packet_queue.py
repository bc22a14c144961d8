"""Packets that are held, changed or sent out of order: `python3 packet_queue.py delay|corrupt|reorder [MS]`, as root.

It takes what the firewall gives to queue 5 (target NFQUEUE), for kernels without netem. It is copied to a host of a lab
and runs there alone, so it has the standard library only. Numbers: include/uapi/linux/netfilter/nfnetlink_queue.h.
"""

from __future__ import annotations

import contextlib
import heapq
import select
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

QUEUE = 5
NETLINK_NETFILTER, SUBSYSTEM, REQUEST = 12, 3 << 8, 1
PACKET, VERDICT, CONFIG = SUBSYSTEM | 0, SUBSYSTEM | 1, SUBSYSTEM | 2
COMMAND, PARAMETERS, MOST, MASK, FLAGS = 1, 2, 3, 4, 5  # attributes of CONFIG
PACKET_HEADER, VERDICT_HEADER, PAYLOAD = 1, 2, 10
BIND, COPY_META, COPY_PACKET, ACCEPT = 1, 1, 2, 1
UNSEGMENTED = 1 << 2  # large packets come in one piece
MOST_PACKETS = 8192


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute of a message, padded."""
    return struct.pack("HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def message(kind: int, *attributes: bytes) -> bytes:
    """A message to the queue."""
    body = struct.pack(">BBH", 0, 0, QUEUE) + b"".join(attributes)
    return struct.pack("IHHII", 16 + len(body), kind, REQUEST, 0, 0) + body


def settings(copied: int) -> bytes:
    """The messages that take the queue, and say how much of each packet is wanted."""
    flags = UNSEGMENTED if copied == COPY_META else 0
    return b"".join([
        message(CONFIG, attribute(COMMAND, struct.pack(">BxH", BIND, socket.AF_INET))),
        message(CONFIG, attribute(PARAMETERS, struct.pack(">IB", 0xFFFF, copied))),
        message(CONFIG, attribute(MOST, struct.pack(">I", MOST_PACKETS))),
        message(CONFIG, attribute(MASK, struct.pack(">I", UNSEGMENTED)), attribute(FLAGS, struct.pack(">I", flags))),
    ])  # fmt: skip


def packets(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and payload of each packet in what the kernel has sent."""
    while len(data) >= 16:
        size, kind = struct.unpack_from("IH", data)
        rows = dict(attributes(data[20:size])) if kind == PACKET else {}
        if PACKET_HEADER in rows:
            yield struct.unpack_from(">I", rows[PACKET_HEADER])[0], rows.get(PAYLOAD, b"")
        data = data[size + -size % 4 :]


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Kind and value of each attribute."""
    while len(data) >= 4:
        size, kind = struct.unpack_from("HH", data)
        yield kind & 0x3FFF, data[4:size]
        data = data[size + -size % 4 :]


def let_go(number: int, payload: bytes = b"") -> bytes:
    """The message that lets a packet pass, with another payload if one is given."""
    more = [attribute(PAYLOAD, payload)] if payload else []
    return message(VERDICT, attribute(VERDICT_HEADER, struct.pack(">II", ACCEPT, number)), *more)


def changed(payload: bytes) -> bytes:
    """The packet with another last byte, and the checksum that it had."""
    return payload[:-1] + bytes([payload[-1] ^ 0x55])


def serve(sock: socket.socket, how: str, delay_s: float) -> None:
    """Handle the packets of the queue until the process ends."""
    sock.send(settings(COPY_PACKET if how == "corrupt" else COPY_META))
    waiting: list[tuple[float, int]] = []
    while True:
        left_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        if select.select([sock], [], [], left_s)[0]:
            with contextlib.suppress(OSError):  # ENOBUFS: some were lost
                for number, payload in packets(sock.recv(1 << 17)):
                    if how == "corrupt":
                        sock.send(let_go(number, changed(payload)))
                    else:
                        heapq.heappush(waiting, (time.monotonic() + delay_s, number))
        while waiting and waiting[0][0] <= time.monotonic():
            sock.send(let_go(heapq.heappop(waiting)[1]))


if __name__ == "__main__":
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as queue:
        queue.bind((0, 0))
        serve(queue, sys.argv[1], float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0.0)
