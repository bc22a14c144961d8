"""Leases on what two runs must not share on one host (ports, later slots): file locks, gone with their holder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from pathlib import Path
from typing import IO, Any, List, Optional

# World-writable with the sticky bit, like /tmp: several users lease on one host.
LEASES = Path("/tmp/ddp-play-leases")


def hold(name: str) -> Optional[IO[Any]]:
    """Take the lease `name`: the open file holds it. None when somebody else has it."""
    with contextlib.suppress(FileExistsError):
        LEASES.mkdir()
        LEASES.chmod(0o1777)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        fd = os.open(str(LEASES / name), flags, 0o666)
    except PermissionError:  # another user's file in a sticky directory: read access is enough to lock
        fd = os.open(str(LEASES / name), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    handle = os.fdopen(fd, "rb")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        return None
    return handle


def port_free(port: int) -> bool:
    """Can this port be bound on all addresses, both families?"""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                sock.bind((address, port))
                sock.listen(1)
        except OSError as error:
            if error.errno in (97, 99):  # no IPv6 here
                continue
            return False
    return True


def takes_effect(name: str) -> bool:
    """Is what the lease stands for still there to be used? A port may be taken by who knows nothing of leases."""
    return not name.startswith("port-") or port_free(int(name[len("port-") :]))


def lease_port(first: int, last: int, avoid: List[int]) -> Optional["PortLease"]:
    """The first port of the range that is neither leased nor in use; None when there is none."""
    for port in range(first, last + 1):
        if port in avoid:
            continue
        handle = hold("port-%d" % port)
        if handle is None:
            continue
        if port_free(port):
            return PortLease(port, handle)
        handle.close()
    return None


class PortLease:
    """A leased port; the guard takes the lease over before the channel lets go of it."""

    def __init__(self, port: int, handle: IO[Any]) -> None:
        self.port = port
        self.handle = handle
