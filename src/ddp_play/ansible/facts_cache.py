"""File with the facts of hosts from the last discovery of an inventory."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from ddp_play.bundle.paths import home

if TYPE_CHECKING:
    from pathlib import Path

    from ddp_play.ansible.runner import PlaybookRequest


def facts_cache(request: PlaybookRequest) -> Path:
    """File with the facts of the last discovery of this inventory."""
    key = hashlib.sha256("\n".join(request.inventory or (request.cwd,)).encode()).hexdigest()[:16]
    return home() / "facts" / f"{key}.json"
