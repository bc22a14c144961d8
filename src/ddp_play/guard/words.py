"""What ranks say when a peer is gone: torch's own words, as measured on 2.13 and read in 2.15."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

COLLATERAL = re.compile(
    r"Connection (reset|closed|refused)|Broken pipe|remote process|remote worker crashing|"
    r"connectFullMesh|DistStoreError|DistNetworkError|Socket Timeout|recv failed|unhandled system error|"
    r"Timed out waiting|watchdog caught collective operation timeout|store.*(timeout|closed)",
    re.IGNORECASE,
)
LAST_LINES = 20
LAST_BYTES = 64 * 1024


def is_collateral(tail: str) -> bool:
    """Are a rank's last words torch's complaint about a lost peer?"""
    return bool(COLLATERAL.search("\n".join(tail.splitlines()[-LAST_LINES:])))


def blames_a_peer(log: Path) -> bool:
    """Does the end of this log?"""
    try:
        with open(str(log), "rb") as handle:
            handle.seek(0, 2)
            handle.seek(max(0, handle.tell() - LAST_BYTES))
            return is_collateral(handle.read().decode("utf-8", "replace"))
    except OSError:
        return False
