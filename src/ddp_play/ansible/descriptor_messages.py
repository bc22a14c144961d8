"""Messages over a unix socket: one JSON object each, and open descriptors. Both ends are processes of one user."""

from __future__ import annotations

import json
import os
import socket
import struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

LENGTH = struct.Struct("!I")
MAX_DESCRIPTORS = 8
LARGEST = 32 << 20
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid


def send(connection: socket.socket, message: dict[str, Any], descriptors: Iterable[int] = ()) -> None:
    """Send one message. Raises OSError if the other end is gone or does not read."""
    data = json.dumps(message).encode()
    head = LENGTH.pack(len(data))
    fds = list(descriptors)
    if fds:
        socket.send_fds(connection, [head], fds)
    else:
        connection.sendall(head)
    connection.sendall(data)


def receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """The next message and its descriptors. Raises EOFError at the end, OSError (TimeoutError), ValueError."""
    head, fds, _, _ = socket.recv_fds(connection, LENGTH.size, MAX_DESCRIPTORS)
    try:
        for fd in fds:
            os.set_inheritable(fd, False)
        message = _message(connection, head)
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    return message, fds


def _message(connection: socket.socket, head: bytes) -> dict[str, Any]:
    (size,) = LENGTH.unpack(head + _exactly(connection, LENGTH.size - len(head)))
    if size > LARGEST:
        raise ValueError(f"a message of {size} bytes")
    message = json.loads(_exactly(connection, size))
    if not isinstance(message, dict):
        raise TypeError("a message that is no object")
    return message


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(size)
        if not part:
            raise EOFError("the other end closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def listen(path: str) -> socket.socket:
    """A socket that listens at the path. The path may be longer than the address of a socket."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    _at(path, listening.bind)
    listening.listen(32)
    return listening


def connect(path: str, timeout_s: float) -> socket.socket:
    """A connection to the process that listens there. Raises OSError; PermissionError if that is another user's."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        _at(path, connection.connect)
        check_peer(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def check_peer(connection: socket.socket) -> int:
    """Pid of the process at the other end. PermissionError if it belongs to another user."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _ = _CREDENTIALS.unpack(credentials)
    if uid != os.geteuid():
        raise PermissionError(f"process {pid} belongs to the user with id {uid}")
    return int(pid)


def _at(path: str, act: Any) -> None:
    """Bind or connect by way of the directory's descriptor: an address of a unix socket has 107 bytes at most."""
    folder, _, name = path.rpartition("/")
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        act(f"/proc/self/fd/{directory}/{name}")
    finally:
        os.close(directory)
