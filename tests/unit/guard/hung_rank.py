"""Starts a process that SIGKILL does not end, as a rank on a dead NFS server: `hung_rank.py DIRECTORY`.

Prints its pid once it waits for a server of files that does not answer. That server ends with this program's standard
input, and the process with it. Needs root and /dev/fuse. Standard library only.
"""

from __future__ import annotations

import subprocess
import sys
import threading

from tests.unit.guard.fuse_home import LIBC, mount_fuse, serve

MNT_FORCE = 1


def _end_with_input() -> None:
    sys.stdin.read()
    LIBC.umount2(sys.argv[1].encode(), MNT_FORCE)  # which answers all questions with an error


def main() -> None:
    """Mount, start the process and leave its question without an answer."""
    fuse = mount_fuse(sys.argv[1])
    with subprocess.Popen(["ls", f"{sys.argv[1]}/file"], start_new_session=True) as rank:
        threading.Thread(target=_end_with_input, daemon=True).start()
        serve(fuse, lambda: print(rank.pid, flush=True))  # noqa: T201 - the answer of this program


if __name__ == "__main__":
    main()
