"""Whether a rank failed, and why by text alone: torch's messages about a lost peer, the kernel's about lack of memory.

torch's messages are as measured on 2.13 and read in 2.15. Host and controller judge by the same patterns."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, List, Optional

if TYPE_CHECKING:
    from pathlib import Path

COLLATERAL = re.compile(
    r"Connection (reset|closed|refused)|Broken pipe|remote process|remote worker crashing|"
    r"connectFullMesh|DistStoreError|DistNetworkError|Socket Timeout|recv failed|unhandled system error|"
    r"Timed out waiting|watchdog caught collective operation timeout|store.*(timeout|closed)",
    re.IGNORECASE,
)
OOM_EVENT = re.compile(r"oom-kill:.*\btask_memcg=(?P<group>[^,]+),.*\bpid=(?P<pid>\d+)")
OOM_GROUP = re.compile(r"Task in (?P<group>\S+) killed as a result of limit of")  # before Linux 4.19
OOM_KILLED = re.compile(r"\b[Oo]ut of memory: Kill(ed)? process (?P<pid>\d+)|\bKilled process (?P<pid2>\d+)")
LAST_LINES = 20
LAST_BYTES = 64 * 1024


def rank_failed(state: str, exit_code: Optional[int], *, stopped: bool) -> bool:
    """Did a rank end badly, and not because we ended it? An exit code that nobody can tell (None) is a bad one."""
    return state == "exited" and exit_code != 0 and not stopped


def is_collateral(tail: str) -> bool:
    """Are a rank's last words torch's complaint about a lost peer?"""
    return bool(COLLATERAL.search("\n".join(tail.splitlines()[-LAST_LINES:])))


def is_oom(lines: List[str]) -> bool:
    """Do these lines of the kernel's log tell of an OOM kill?"""
    return any(OOM_EVENT.search(line) or OOM_GROUP.search(line) or OOM_KILLED.search(line) for line in lines)


def blames_a_peer(log: Path) -> bool:
    """Does the end of this log?"""
    try:
        with open(str(log), "rb") as handle:
            handle.seek(0, 2)
            handle.seek(max(0, handle.tell() - LAST_BYTES))
            return is_collateral(handle.read().decode("utf-8", "replace"))
    except OSError:
        return False
