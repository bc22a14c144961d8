"""What every rank of a failing job runs: `failing.py KIND`. The last rank fails; its peers wait, as in a collective.

Standard library only. RANK and WORLD_SIZE, or Slurm's variables, say which rank this is.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import time

FAILS_AFTER_S, WAITS_S = 3.0, 900.0


def eat() -> None:
    """More memory than the step may have."""
    kept = []
    while True:
        kept.append(bytearray(os.urandom(1 << 20)) * 16)


def leave() -> None:
    """An exit code of its own."""
    sys.exit(9)


def fail(kind: str) -> None:
    """What the last rank does. Of other kinds, the fault comes from outside."""
    if kind == "rank exits 9":
        leave()
    if kind == "SIGKILL":
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "out of memory":
        eat()
    if kind == "hang":
        os.kill(os.getpid(), signal.SIGSTOP)


def main(kind: str) -> None:
    """Say which rank this is, then fail or wait."""
    variables = os.environ
    rank = int(variables.get("RANK") or variables["SLURM_PROCID"])
    world_size = int(variables.get("WORLD_SIZE") or variables["SLURM_NTASKS"])
    print(f"rank {rank} of {world_size} started", flush=True)
    if kind == "import error":
        importlib.import_module("a_module_that_nobody_installed")
    time.sleep(FAILS_AFTER_S)
    if rank == world_size - 1:
        fail(kind)
    time.sleep(WAITS_S)


if __name__ == "__main__":
    main(sys.argv[1])
