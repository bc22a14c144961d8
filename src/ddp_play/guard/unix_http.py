"""One HTTP request over a Unix socket.

The standard library's client costs each process of this program 50 ms to import, with its modules for mail headers and
TLS. A request of HTTP/1.0 has an answer without chunks that ends with the connection.
"""

from __future__ import annotations

import re
import socket
import time
from typing import Tuple

MAX_BYTES = 256 << 20
_STATUS = re.compile(rb"HTTP/1\.\d (\d{3})\b")


class AnswerError(OSError):
    """The server's answer is no HTTP."""


def request(path: str, method: str, target: str, timeout_s: float) -> Tuple[int, bytes]:
    """Send a request without a body to the socket at `path`; return status and body.

    Raises OSError, and socket.timeout if the whole answer has not arrived within `timeout_s`.
    """
    until = time.monotonic() + timeout_s
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout_s)
        connection.connect(path)
        connection.sendall(("%s %s HTTP/1.0\r\nHost: localhost\r\n\r\n" % (method, target)).encode())
        answer = bytearray()
        while True:
            connection.settimeout(max(0.001, until - time.monotonic()))
            data = connection.recv(1 << 16)
            if not data:
                return _parts(bytes(answer))
            answer += data
            if len(answer) > MAX_BYTES:
                raise AnswerError("an answer of more than %d MiB" % (MAX_BYTES >> 20))


def _parts(answer: bytes) -> Tuple[int, bytes]:
    head, _, body = answer.partition(b"\r\n\r\n")
    found = _STATUS.match(head)
    if not found:
        raise AnswerError("an answer that is no HTTP: %r" % answer[:60])
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    if length and len(body) < int(length[1]):
        raise AnswerError("the connection ended within the answer")
    return int(found[1]), body
