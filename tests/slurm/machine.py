"""What this machine has for a Slurm cluster: programs, control groups, free ports."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
from contextlib import ExitStack
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol")
# Debian keeps the daemons in sbin.
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
FREEZER = Path("/sys/fs/cgroup/freezer")


def lacking() -> str:
    """Why no cluster can be started here; empty if one can."""
    if missing := [program for program in PROGRAMS if not shutil.which(program, path=SEARCH_PATH)]:
        return f"Slurm is not installed here: {', '.join(missing)}"
    return "" if os.geteuid() == 0 else "a Slurm cluster of this machine is started as root only"


def lacking_control_groups() -> str:
    """Why proctrack/cgroup cannot be used on this machine; empty if it can."""
    trial = FREEZER / f"ddp-play-trial-{secrets.token_hex(4)}"
    try:
        trial.mkdir()
        trial.rmdir()
    except OSError as error:
        return f"proctrack/cgroup needs control groups (v1) that can be made here: {error}"
    return ""


def free_ports(count: int) -> list[int]:
    """Consecutive ports of this machine that nobody uses now, outside the ephemeral range."""
    for _ in range(200):
        first = 10000 + secrets.randbelow(20000)
        with ExitStack() as taken:
            try:
                for port in range(first, first + count):
                    taken.enter_context(socket.socket()).bind(("127.0.0.1", port))
            except OSError:
                continue
            return list(range(first, first + count))
    raise AssertionError("no free ports for the daemons")
