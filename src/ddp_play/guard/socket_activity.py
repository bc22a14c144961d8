"""Traffic of the ranks' sockets, from the kernel's sock_diag, because /proc does not count bytes."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from pathlib import Path
from typing import Dict, List, Optional

from . import hang_evidence, processes

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY = 4, 20
NLM_F_REQUEST_DUMP, NLMSG_ERROR, NLMSG_DONE = 0x301, 2, 3
INET_DIAG_INFO, ALL_STATES = 2, 0xFFF
MESSAGE = 72  # sizeof(struct inet_diag_msg); its inode is the last field
# tcpi_bytes_acked and tcpi_bytes_received in struct tcp_info, Linux 4.1 and up (include/uapi/linux/tcp.h).
BYTES_AT = 120
INFINIBAND = Path("/sys/class/infiniband")

# Less than this per second is a heartbeat of a store or a logger, not a training step.
QUIET_BYTES = 4096
EVERY_S = 1.0


def tcp_bytes() -> Optional[Dict[int, int]]:
    """inode -> bytes sent and received of every TCP socket of this network namespace; None if not available."""
    counts: Dict[int, int] = {}
    try:
        for family in (socket.AF_INET, socket.AF_INET6):
            _dump(family, counts)
    except OSError:
        return None
    return counts


def _dump(family: int, counts: Dict[int, int]) -> None:
    request = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), ALL_STATES)
    header = struct.pack("=IHHII", 16 + len(request), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST_DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(2.0)
        netlink.send(header + request)
        while _take(netlink.recv(1 << 18), counts):
            pass


def _take(data: bytes, counts: Dict[int, int]) -> bool:
    """Messages of one datagram; False after the last one."""
    at = 0
    while at + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if kind == NLMSG_DONE:
            return False
        if kind == NLMSG_ERROR or length < 16:
            raise OSError("sock_diag is not answered")
        _one(data[at + 16 : at + length], counts)
        at += (length + 3) & ~3
    return True


def _one(message: bytes, counts: Dict[int, int]) -> None:
    if len(message) < MESSAGE:
        return
    inode = struct.unpack_from("=I", message, MESSAGE - 4)[0]
    at = MESSAGE
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("=HH", message, at)
        if length < 4:
            return
        if kind == INET_DIAG_INFO and length >= 4 + BYTES_AT + 16:
            counts[inode] = sum(struct.unpack_from("=QQ", message, at + 4 + BYTES_AT))
        at += (length + 3) & ~3


def rdma_bytes() -> int:
    """Bytes sent and received on all RDMA ports of this host; their counters have 4-byte units."""
    total = 0
    for counter in INFINIBAND.glob("*/ports/*/counters/port_*_data") if INFINIBAND.is_dir() else []:
        with contextlib.suppress(OSError, ValueError):
            total += 4 * int(counter.read_text())
    return total


class Traffic:
    """Detects whether the ranks of this host communicate."""

    def __init__(self) -> None:
        self.moved_at = 0.0  # epoch seconds of the last look that found traffic
        self._bytes: Dict[int, int] = {}
        self._rdma = rdma_bytes()
        self._looked = 0.0

    def look(self, roots: List[int]) -> None:
        """Update `moved_at`, at most once a second, from the sockets of these processes and their descendants."""
        if time.monotonic() - self._looked < EVERY_S:
            return
        self._looked = time.monotonic()
        known = tcp_bytes() or {}
        inodes = hang_evidence.socket_inodes([*roots, *processes.descendants(*roots)]) if known else {}
        mine = {inode: known[inode] for inode in inodes if inode in known}
        moved = sum(count - self._bytes.get(inode, 0) for inode, count in mine.items())
        rdma = rdma_bytes()
        moved += rdma - self._rdma
        self._bytes, self._rdma = mine, rdma
        if moved >= QUIET_BYTES:
            self.moved_at = float(int(time.time()))
