"""Reads the files of a guard whose home hangs, and of one whose does not: `hung_home DIRECTORY OTHER`.

Prints what it read and how long that took, twice, and then twice for the specs alone. Needs root and /dev/fuse.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ddp_play.guard.guard_files import Claim, GuardFiles, read_specs
from ddp_play.guard.run_directory import HostRun
from tests.unit.guard.fuse_home import mount_fuse, serve

KIM = 61001


def tell(read: Callable[[], Any]) -> None:
    """One reading as a line."""
    began = time.monotonic()
    found = read()
    print(json.dumps({"told": found, "took_s": time.monotonic() - began}), flush=True)  # noqa: T201 - its answer


def main() -> None:
    """Mount, read, and end; the file system ends with this process, and with it what waits for it."""
    hung, other = Path(sys.argv[1]), Path(sys.argv[2])
    fuse = mount_fuse(str(hung))
    threading.Thread(target=serve, args=(fuse, lambda: None), daemon=True).start()
    files = GuardFiles()
    claims = {
        1: Claim(HostRun(hung / "1.h1"), KIM),
        2: Claim(HostRun(other), os.geteuid()),
        3: Claim(HostRun(hung / "2.h1"), os.geteuid()),
        4: Claim(HostRun(other), KIM),
    }
    for _ in range(2):
        tell(lambda: files.read(claims))
    for _ in range(2):
        tell(lambda: list(read_specs(claims.values()).values()))
    os._exit(0)


if __name__ == "__main__":
    main()
