"""What a host has counted since boot, for its samples: CPU, memory, networks and disks, from files that stay open."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, List, Tuple

from .processes import TICKS_PER_S

Pair = Tuple[int, int]  # bytes received and sent, or read and written
READ_BYTES = 1 << 16
MAX_FILE_BYTES = 4 << 20
MAX_NICS = 64
GPU_DRIVER = "/dev/nvidiactl"  # exists once the driver is loaded
INFINIBAND = "/sys/class/infiniband"
SECTOR_BYTES = 512  # of /proc/diskstats, whatever the disk's own are
# Fields of the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq. A guest's time is in `user`.
BUSY, STOLEN = (1, 2, 3, 6, 7), 8


class OpenFiles:
    """Files of /proc and /sys, read again and again: opening them costs more than reading them."""

    def __init__(self, root: str = "") -> None:
        self._root = root
        self._open: Dict[str, int] = {}

    def read(self, path: str) -> bytes:
        """Content from the start. Raises OSError, and forgets the file."""
        try:
            fd = self._open[path] if path in self._open else self._opened(path)
            data = b""
            while len(data) < MAX_FILE_BYTES and (piece := os.pread(fd, READ_BYTES, len(data))):
                data += piece
        except OSError:
            self.close(path)
            raise
        return data

    def _opened(self, path: str) -> int:
        self._open[path] = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC)
        return self._open[path]

    def close(self, path: str) -> None:
        """Forget a file."""
        fd = self._open.pop(path, None)
        if fd is not None:
            os.close(fd)


class HostCounters:
    """Reads the counters of one host."""

    def __init__(self, root: str = "") -> None:
        """`root`: directory in place of / for tests."""
        self._files = OpenFiles(root)
        self._disks = disks(root)

    def read(self) -> Dict[str, Any]:
        """`cpu` in seconds of all cores, `memory` and `memory_total` in bytes, `nics` by name, `disk`.

        What cannot be read is left out.
        """
        found: Dict[str, Any] = {}
        for name, path, parse in (
            ("cpu", "/proc/stat", busy_seconds),
            ("nics", "/proc/net/dev", nic_bytes),
            ("disk", "/proc/diskstats", self._disk_bytes),
        ):
            with contextlib.suppress(OSError, ValueError, IndexError):
                found[name] = parse(self._files.read(path))
        with contextlib.suppress(OSError, ValueError, KeyError):
            total, available = memory_bytes(self._files.read("/proc/meminfo"))
            found.update(memory=total - available, memory_total=total)
        if not self._disks:
            found.pop("disk", None)
        return found

    def _disk_bytes(self, text: bytes) -> Pair:
        return disk_bytes(text, self._disks)


def busy_seconds(text: bytes) -> float:
    """CPU time of all processes and of the kernel, from /proc/stat."""
    fields = text.split(b"\n", 1)[0].split()
    return sum(int(fields[at]) for at in BUSY) / TICKS_PER_S


def stolen_seconds(text: bytes) -> float:
    """CPU time that the hypervisor gave to others, from /proc/stat."""
    return int(text.split(b"\n", 1)[0].split()[STOLEN]) / TICKS_PER_S


def memory_bytes(text: bytes) -> Pair:
    """(total, available) from /proc/meminfo. Raises KeyError."""
    rows = {line.split(b":")[0]: line.split()[1] for line in text.splitlines()[:5] if len(line.split()) > 1}
    return int(rows[b"MemTotal"]) * 1024, int(rows[b"MemAvailable"]) * 1024


def nic_bytes(text: bytes) -> Dict[str, Pair]:
    """Bytes of each interface that has carried any, from /proc/net/dev.

    veth interfaces of containers are left out: their traffic passes another interface as well.
    """
    found: Dict[str, Pair] = {}
    for line in text.splitlines()[2:]:
        name, _, counts = line.partition(b":")
        fields = counts.split()
        pair = int(fields[0]), int(fields[8])
        if any(pair) and not name.strip().startswith(b"veth") and len(found) < MAX_NICS:
            found[name.strip().decode("ascii", "replace")] = pair
    return found


def disk_bytes(text: bytes, disks: "frozenset[bytes]") -> Pair:
    """Bytes that these disks have read and written, from /proc/diskstats."""
    rows: List[List[bytes]] = [line.split() for line in text.splitlines()]
    mine = [row for row in rows if len(row) > 9 and row[2] in disks]
    return sum(int(row[5]) for row in mine) * SECTOR_BYTES, sum(int(row[9]) for row in mine) * SECTOR_BYTES


def disks(root: str = "") -> "frozenset[bytes]":
    """Names of the disks themselves: no partitions, and no devices that the kernel makes out of others."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(root + "/sys/block"):
            if "/virtual/" not in os.path.realpath(os.path.join(root + "/sys/block", name)):
                found.append(name.encode())
    return frozenset(found)


def has_devices() -> bool:
    """Whether this host has a GPU whose driver is loaded, or an RDMA device (`device_readings`)."""
    return os.path.exists(GPU_DRIVER) or bool(os.path.isdir(INFINIBAND) and os.listdir(INFINIBAND))
