"""How much has been collected, told now and then while hosts send their artifacts, and how long that may take."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ddp_play.run.link import Link

TELL_EVERY_S = 10.0
# A host that is silent has failed long before; this ends what is slow for ever.
LEAST_S = 3600.0
SLOWEST_MIB_PER_S = 5.0  # of all hosts together

Told = Callable[[int], None]  # gets the bytes of artifacts that have come so far


class CollectionProgress:
    """Call it as often as you like: `told` is called every TELL_EVERY_S if more has come."""

    def __init__(self, links: Sequence[Link], told: Told) -> None:
        self._links, self._told = links, told
        self._due = time.monotonic() + TELL_EVERY_S
        self._before = 0

    def __call__(self) -> None:
        """Tell it if it is time."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + TELL_EVERY_S
        num_bytes = sum(link.files.artifact_bytes for link in self._links)
        if num_bytes > self._before:
            self._before = num_bytes
            self._told(num_bytes)


def longest_s(num_hosts: int, max_mib: int) -> float:
    """How long so many hosts may take to send so many MiB of artifacts each, and their results."""
    return LEAST_S + num_hosts * max_mib / SLOWEST_MIB_PER_S
