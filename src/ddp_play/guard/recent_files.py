"""Files of a run in /tmp: their times are renewed, because systemd-tmpfiles removes what is 10 days old."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import List, Optional

from .untrusted_paths import locate, touch

EVERY_S = 3600.0
AGED = ("/tmp", "/var/tmp")


class RecentFiles:
    """Keeps those of these paths that are in a directory of temporary files; the others are left alone."""

    def __init__(self, paths: List[str]) -> None:
        self.paths = [Path(path) for path in paths if any(Path(top) in Path(path).parents for top in AGED)]
        self._renewed: Optional[float] = None

    def renew(self) -> None:
        """Set the times of the files to now, at most once in EVERY_S."""
        if not self.paths or (self._renewed is not None and time.monotonic() - self._renewed < EVERY_S):
            return
        self._renewed = time.monotonic()
        for path in self.paths:
            with contextlib.suppress(OSError):  # no rank has made it yet, or it is not this user's
                touch(locate(path))
