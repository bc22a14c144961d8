"""A pytest plugin: each parallel worker has a network of its own, as if its runs were on a machine of their own.

Runs lease their names, slots and ports from the network namespace. Without it two tests that use the same name, port
or slot at the same time disturb each other. Used with `-p tests.own_network`; needs root, without it all share one.
No server resolves names there, which torch reports in the ranks' output: tests of ranks alone (tests/dist), which lease
nothing, and those with the mark `machine_network` stay outside.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

CLONE_NEWNET = 0x40000000  # linux/sched.h
HERE = "/proc/thread-self/ns/net"
OUTSIDE = Path(__file__).parent / "dist"

_libc = ctypes.CDLL(None, use_errno=True)


class OwnNetwork:
    """A network namespace with only a loopback interface, made when it is entered first."""

    def __init__(self) -> None:
        self._descriptor = -1

    @contextmanager
    def entered(self) -> Iterator[None]:
        """This thread, and the processes that it starts, are in this network."""
        before = os.open(HERE, os.O_RDONLY)
        try:
            if self._descriptor >= 0:
                _checked(_libc.setns(self._descriptor, CLONE_NEWNET))
            else:
                _checked(_libc.unshare(CLONE_NEWNET))
                subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
                self._descriptor = os.open(HERE, os.O_RDONLY)
            yield
        finally:
            _checked(_libc.setns(before, CLONE_NEWNET))
            os.close(before)


OF_THIS_WORKER = OwnNetwork()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Run a test of a worker (of pytest-xdist) in the worker's network."""
    outside = OUTSIDE in item.path.parents or item.get_closest_marker("machine_network")
    if outside or not hasattr(item.config, "workerinput") or os.geteuid() != 0:
        return (yield)
    with OF_THIS_WORKER.entered():
        return (yield)


def _checked(result: int) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
