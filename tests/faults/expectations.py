"""What comes of a fault, for rows that expect the same."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from ddp_play.run.controller_disk_full import WAIT_FOR_SPACE_S
from ddp_play.run.restart_loop import LOST_HOSTS_S
from tests.faults.rows import DONE, Expected

ROOT = Path(__file__).resolve().parents[2]
TRAIN = ["python3", "-m", "trainer", "train", "--epochs", "1", "--checkpoint-every", "3", "--sleep-per-step", "0.1"]
IDLE_S = 20
# Rows in which 300 MB come home, from the end of the ranks on.
COLLECT_S = 30.0


def failed(rank: int, host: str, exit_code: int, *says: str) -> Expected:
    """The run ends because of this rank."""
    return Expected(True, "rank_failed", exit_code, rank=rank, host=host, says=says)


def hung(rank: int, host: str, *says: str) -> Expected:
    """The watchdog ends the run, and knows who held it up."""
    return Expected(True, "idle", 124, rank=rank, host=host, says=says, stopped_s=IDLE_S + 10)


def stopped(*says: str, stopped_s: float | None = 5.0, missing: bool = False) -> Expected:
    """A person ended it."""
    return Expected(True, "stopped", 130, says=says, stopped_s=stopped_s, missing=missing)


def lost(host: str, rank: int) -> Expected:
    """The run ends because this host is gone, with its ranks; what only it knew is missing, and run.json says so.

    Its peers may end at once, for they miss it first; that it is lost is certain, and all is cleaned, only when it
    has been silent for `host_timeout`.
    """
    says = (f"host {host} was lost",)
    return Expected(True, "host_lost", 69, rank, host, stopped_s=10.0, clean_s=10.0, missing=True, says=says)


def again(*says: str, stopped_s: float | None = 5.0) -> Expected:
    """The gang starts once more, and succeeds."""
    return dataclasses.replace(DONE, attempts=2, stopped_s=stopped_s, says=says)


# Ranks 0 and 1 on h1, 2 on h2; h3 stands by. The defaults are 30 s, 60 s and 30 s.
LOST = {"host_timeout": 8, "lease": 12, "grace": 2}
RESTARTS = {"restarts": 1, "spares": ["h3"], **LOST}

# At its end the run tries to clean the lost host once more; the other hosts are examined after that.
AFTER_A_LOSS = dataclasses.replace(again("replacement host: h3", stopped_s=10.0), clean_s=5.0 + LOST_HOSTS_S)

UNSTARTED = Expected(True, "interrupted", 130, stopped_s=None)


def controller_full(reason: str) -> Expected:
    """The controller cannot store what the hosts have: it stays there until `attach`."""
    says, remains = (reason, "ddp-play attach"), {"h1": ("files",)}
    clean_s = WAIT_FOR_SPACE_S + 10
    return Expected(True, "disk_full", 70, stopped_s=None, clean_s=clean_s, missing=True, remains=remains, says=says)
