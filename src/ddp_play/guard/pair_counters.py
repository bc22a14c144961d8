"""Counters around a measurement between two hosts: TCP_INFO, checksum errors, carrier changes, use of the CPU."""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path
from typing import Any, Dict, Optional

NET = Path("/sys/class/net")
SNMP = Path("/proc/net/snmp")
SCHEDULED = Path("/proc/thread-self/schedstat")
# struct tcp_info of include/uapi/linux/tcp.h: offsets of fields, which never change
TOTAL_RETRANS, SEGS_OUT, DATA_SEGS_OUT, BUSY_TIME, WINDOW_LIMITED = 100, 136, 156, 168, 176
DSACK_DUPS, RCV_OOOPACK, INFO_BYTES = 216, 224, 232


class TcpInfo:
    """What the kernel has counted of a connection; zeros where an old one does not."""

    def __init__(self, sock: socket.socket) -> None:
        try:
            self._info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
        except OSError:
            self._info = b""
        self.segments = self._field("I", DATA_SEGS_OUT if len(self._info) > DATA_SEGS_OUT else SEGS_OUT)
        # less those that the peer had received already: what comes late is sent again, too
        self.retransmits = max(0, self._field("I", TOTAL_RETRANS) - self._field("I", DSACK_DUPS))
        self.out_of_order = self._field("I", RCV_OOOPACK)  # that arrived after a later one
        self.busy_s = self._field("Q", BUSY_TIME) / 1e6  # with data that the peer has not acknowledged
        self.window_limited_s = self._field("Q", WINDOW_LIMITED) / 1e6  # because the peer did not take it

    def _field(self, kind: str, offset: int) -> int:
        size = struct.calcsize(kind)
        return int(struct.unpack_from("=" + kind, self._info, offset)[0]) if len(self._info) >= offset + size else 0


def checksum_errors(text: Optional[str] = None) -> int:
    """TCP segments that arrived with a wrong checksum since the start of this host."""
    try:
        lines = (SNMP.read_text() if text is None else text).splitlines()
    except OSError:
        return 0
    rows = [line.split() for line in lines if line.startswith("Tcp:")]
    if len(rows) < 2 or "InCsumErrors" not in rows[0]:
        return 0
    return int(rows[1][rows[0].index("InCsumErrors")])


class CpuUse:
    """Part of the time since its making in which this thread ran, a CPU copying for it, or waited for a CPU."""

    def __init__(self) -> None:
        self._began, self._used_s = time.monotonic(), _used_s()

    def share(self) -> float:
        """From 0 to 1; near 1 the CPUs are the limit, not the network."""
        passed_s = time.monotonic() - self._began
        return min(1.0, (_used_s() - self._used_s) / passed_s) if passed_s > 0 else 1.0


def _used_s() -> float:
    """Seconds in which this thread ran or could have run; those in which it ran where the kernel does not tell."""
    try:
        ran_ns, waited_ns = SCHEDULED.read_text().split()[:2]
        return (int(ran_ns) + int(waited_ns)) / 1e9
    except (OSError, ValueError):
        return time.thread_time()


def interface_facts(name: str) -> Dict[str, Any]:
    """MTU, carrier changes and, of hardware only, link speed: drivers of virtual interfaces report any number."""
    path = NET / name
    speed = _number(path / "speed")
    return {
        "mtu": _number(path / "mtu") or 0,
        "carrier_changes": _number(path / "carrier_changes") or 0,
        "link_mbps": speed if speed and speed > 0 and _is_hardware(path) else None,
    }


def _is_hardware(path: Path) -> bool:
    """Has it a device behind it that is no virtual one (virtio reports what the hypervisor's owner typed)?"""
    driver = os.path.basename(os.path.realpath(str(path / "device" / "driver")))
    return (path / "device").exists() and not driver.startswith("virtio")


def _number(path: Path) -> Optional[int]:
    try:
        return int(path.read_text().strip())
    except (OSError, ValueError):
        return None
