"""Workers of ansible-playbook that outlive it: processes of their own session, each with one task on one host.

ansible-runner ends only ansible-playbook itself. A worker whose task is repeated (`until`) would go on for as long as
the task allows, and change hosts although the playbook was interrupted.
"""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path

# ansible-runner sets it for ansible-playbook, for its callback plugin; each run has its own.
MARK = "AWX_ISOLATED_DATA_DIR"
PROGRAM = b"ansible-playbook"


def workers_of(playbook: int) -> list[int]:
    """Pids of the workers of a running ansible-playbook: its children."""
    try:
        return [int(pid) for pid in Path(f"/proc/{playbook}/task/{playbook}/children").read_text("ascii").split()]
    except OSError:  # it has ended, or the kernel does not tell
        return []


def end_workers(private_dir: Path) -> list[int]:
    """End the workers of the run with this directory of ansible-runner. Returns their pids. Needs /proc."""
    wanted = os.fsencode(f"{MARK}={private_dir}{os.sep}")
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if not any(os.path.basename(word) == PROGRAM for word in words[:2]):  # noqa: PTH119 - an argument
                continue
            if any(row.startswith(wanted) for row in (folder / "environ").read_bytes().split(b"\0")):
                os.kill(int(folder.name), signal.SIGKILL)
                found.append(int(folder.name))
    return found
