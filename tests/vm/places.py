"""Where images and running machines are kept."""

from __future__ import annotations

import os
from pathlib import Path


def cache() -> Path:
    """`$XDG_CACHE_HOME/ddp-play/vm`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ddp-play" / "vm"
