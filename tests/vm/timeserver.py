"""Time for a site without the internet: this machine's clock over NTP. `python -m tests.vm.timeserver PORT`."""

from __future__ import annotations

import socket
import struct
import sys
import time

NTP_EPOCH_S = 2_208_988_800  # seconds from 1900 to 1970
PACKET = struct.Struct("!BBbbII4s8s8s8s8s")
SERVER_V4 = 0b00_100_100  # no leap second announced, version 4, mode server


def timestamp(seconds: float) -> bytes:
    """Seconds since 1970 as NTP writes them: whole seconds since 1900, then a binary fraction."""
    return struct.pack("!II", int(seconds) + NTP_EPOCH_S, int(seconds % 1 * 2**32))


def answer(request: bytes, received: float) -> bytes:
    """The reply of a stratum 1 server: when it arrived, and when this leaves."""
    return PACKET.pack(
        SERVER_V4,
        1,
        struct.unpack_from("!b", request, 2)[0],  # the poll interval is the client's to choose
        -20,
        0,
        1,
        b"LOCL",
        timestamp(received),
        request[40:48],
        timestamp(received),
        timestamp(time.time()),
    )


def main() -> None:
    """Answer until somebody ends us."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", int(sys.argv[1])))
        while True:
            request, peer = server.recvfrom(512)
            if len(request) >= PACKET.size:
                server.sendto(answer(request, time.time()), peer)


if __name__ == "__main__":
    main()
