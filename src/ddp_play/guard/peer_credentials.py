"""Process and user at the other end of a Unix socket, as the kernel recorded them."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

_CREDENTIALS = "3i"  # struct ucred: pid, uid, gid


class Peer(NamedTuple):
    """Whoever connected to this socket, or listened on the name that this one connected to; `pid` 0: not visible."""

    pid: int
    uid: int


def peer_of(connected: socket.socket) -> Peer:
    """The other end. Raises OSError."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_CREDENTIALS))
    pid, uid, _ = struct.unpack(_CREDENTIALS, raw)
    return Peer(pid, uid)
