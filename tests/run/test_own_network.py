"""Workers that run tests at the same time do not see each other's leases."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BIND = (
    "import socket, sys\n"
    "if sys.argv[2:]:\n"
    "    from tests.own_network import enter_own_network\n"
    "    enter_own_network()\n"
    "held = socket.socket(socket.AF_UNIX)\n"
    "held.bind('\\0' + sys.argv[1])\n"
    "with socket.create_server(('127.0.0.1', 0)) as server:\n"
    "    socket.create_connection(server.getsockname(), timeout=5).close()\n"
)


@pytest.mark.skipif(os.geteuid() != 0, reason="a network of their own needs root")
@pytest.mark.parametrize("own", [True, False])
def test_a_name_that_is_taken_here_is_free_there(own: bool) -> None:
    name = f"ddp-play-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as held:
        held.bind("\0" + name)
        words = [sys.executable, "-c", BIND, name, *(["own"] if own else [])]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode == 0) is own, done.stderr
    assert own or "Address already in use" in done.stderr
