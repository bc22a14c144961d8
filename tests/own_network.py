"""A pytest plugin: each parallel worker has a network of its own, as if its tests ran on a machine of their own.

Runs lease their names, slots and ports from the network namespace. Without it two tests that use the same name, port
or slot at the same time disturb each other. Used with `-p tests.own_network`; needs root, without it all share one.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

CLONE_NEWNET = 0x40000000  # linux/sched.h


def pytest_configure(config: pytest.Config) -> None:
    """Give a worker (of pytest-xdist) its network before the first test; the processes of its tests inherit it."""
    if hasattr(config, "workerinput") and os.geteuid() == 0:
        enter_own_network()


def enter_own_network() -> None:
    """Move this thread, and the processes that it starts, into a new network namespace with only loopback."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
