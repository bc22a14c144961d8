"""Routes, free memory and disk, and kernel limits of the machine on which the lab runs."""

from __future__ import annotations

import ipaddress
import os
import shutil
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from ddp_play.lab.requirements import MIB, KernelLimit, MachineResources

if TYPE_CHECKING:
    from collections.abc import Iterable

_PROC = Path("/proc")


def parse_routes(text: str) -> tuple[ipaddress.IPv4Network, ...]:
    """The networks in /proc/net/route, without the default route."""
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 8 or fields[7] == "00000000":
            continue
        found.append(ipaddress.IPv4Network((_dotted(fields[1]), _dotted(fields[7])), strict=False))
    return tuple(found)


def routed_networks() -> tuple[ipaddress.IPv4Network, ...]:
    """Networks that this machine has routes to; none if /proc/net/route is missing."""
    try:
        return parse_routes((_PROC / "net/route").read_text())
    except OSError:
        return ()


def read_resources(docker_root: str, *, is_local: bool) -> MachineResources:
    """Free memory and disk of the engine's machine."""
    if not is_local:
        return MachineResources(None, None, docker_root)
    try:
        disk = shutil.disk_usage(docker_root).free // MIB
    except OSError:
        disk = None
    return MachineResources(_available_memory_mib(), disk, docker_root)


def unraisable(limits: Iterable[KernelLimit]) -> tuple[KernelLimit, ...]:
    """Limits that are too low and that this user may not raise."""
    return tuple(limit for limit in limits if _is_low(limit) and not os.access(_path(limit), os.W_OK))


def raise_limits(limits: Iterable[KernelLimit]) -> tuple[tuple[KernelLimit, ...], tuple[KernelLimit, ...]]:
    """Raise limits that are too low; return (raised, refused). Limits unknown to the kernel are left out."""
    raised, refused = [], []
    for limit in limits:
        if not _is_low(limit):
            continue
        try:
            _path(limit).write_text(str(limit.target))
            raised.append(limit)
        except OSError:
            refused.append(limit)
    return tuple(raised), tuple(refused)


def _path(limit: KernelLimit) -> Path:
    return _PROC / "sys" / limit.name.replace(".", "/")


def _is_low(limit: KernelLimit) -> bool:
    try:
        return int(_path(limit).read_text()) < limit.least
    except (OSError, ValueError):
        return False


def _available_memory_mib() -> int | None:
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) // 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _dotted(little_endian_hex: str) -> str:
    return socket.inet_ntoa(struct.pack("<L", int(little_endian_hex, 16)))
