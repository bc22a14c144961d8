"""`python -m tests.run.view_bundle RUN [LIMIT]`: the screen of a run that no supervisor follows; it breaks at LIMIT."""

from __future__ import annotations

import fcntl
import os
import signal
import sys

from ddp_play.bundle.paths import RunPaths
from ddp_play.cli.screen.run_screen import RunScreen


class Breaking(RunScreen):
    """Fails when it has drawn as often as it may."""

    left = 0

    def _read(self, size: object) -> None:
        super()._read(size)  # type: ignore[arg-type]
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("broken on purpose")


def main() -> None:
    """Hold the lock of the background process, as one that supervises the run would."""
    if "IGNORE_HANGUP" in os.environ:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    paths = RunPaths.of(sys.argv[1])
    with paths.background_lock.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        screen = Breaking(paths, stop=lambda _now: None)
        screen.left = int(sys.argv[2]) if len(sys.argv) > 2 else 0
        screen.follow()


if __name__ == "__main__":
    main()
