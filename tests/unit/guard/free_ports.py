"""Ports that are free on this machine now, for tests of leases."""

from __future__ import annotations

from ddp_play.guard import leases


def free_range() -> int:
    """The first of five ports that are free now."""
    for first in range(21000, 29000, 50):
        if all(leases.port_free(port) for port in range(first, first + 5)):
            return first
    raise AssertionError("no five free ports")
