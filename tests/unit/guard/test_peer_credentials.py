"""The other end of a Unix socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from ddp_play.guard.peer_credentials import peer_of

LISTEN = """
import socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind("\\0" + sys.argv[1])
listener.listen()
print("listening", flush=True)
listener.accept()
"""


def test_the_process_that_listens_and_its_user() -> None:
    name = f"ddp-play-test/{os.getpid()}"
    command = [sys.executable, "-c", LISTEN, name]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process, socket.socket(socket.AF_UNIX) as sock:
        assert process.stdout is not None
        process.stdout.readline()
        sock.connect("\0" + name)
        assert peer_of(sock) == (process.pid, os.geteuid())


def test_a_socket_that_is_closed_is_an_error() -> None:
    sock = socket.socket(socket.AF_UNIX)
    sock.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        peer_of(sock)
