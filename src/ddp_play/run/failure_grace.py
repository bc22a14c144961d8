"""How long the other hosts are still waited for when one of them has failed, so that one error names all that fail."""

from __future__ import annotations

import time

# Hosts that fail for the same reason, a registry without the image, do so some time apart: by their load, their disk.
LEAST_S = 3.0
MOST_S = 10.0


class FailureGrace:
    """A wait for many hosts that began now."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._until = float("inf")

    def over(self, *, failed: bool) -> bool:
        """Whether the others have had as long again as the first that `failed`, but LEAST_S to MOST_S.

        False where none has: a host that was silent may answer again.
        """
        now = time.monotonic()
        if not failed:
            self._until = float("inf")
        elif self._until == float("inf"):
            self._until = now + min(max(now - self._began, LEAST_S), MOST_S)
        return now >= self._until
