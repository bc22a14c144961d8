"""Ports that are free on this machine now, for tests of leases."""

from __future__ import annotations

import os

from ddp_play.guard import leases

# Looking at a port listens on it for a moment: each worker of the tests has ports of its own.
WORKER = int("0" + os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
EACH = 1000


def free_range() -> int:
    """The first of five ports that are free now."""
    begin = 21000 + WORKER % 8 * EACH
    for first in range(begin, begin + EACH, 50):
        if all(leases.port_free(port) for port in range(first, first + 5)):
            return first
    raise AssertionError("no five free ports")
