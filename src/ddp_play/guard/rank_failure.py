"""Whether a rank failed, and the messages that explain it: torch's about a lost peer, the kernel's about OOM kills.

torch's messages are those measured with 2.13 and read in the source of 2.15. Guard and controller use the same
patterns.
"""

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
    """Whether the last lines of a rank's log are torch's message about a lost peer."""
    return bool(COLLATERAL.search("\n".join(tail.splitlines()[-LAST_LINES:])))


def is_oom(lines: List[str]) -> bool:
    """Whether these lines of the kernel log report an OOM kill."""
    return any(OOM_EVENT.search(line) or OOM_GROUP.search(line) or OOM_KILLED.search(line) for line in lines)


def blames_a_peer(log: Path) -> bool:
    """Whether the end of this log is torch's message about a lost peer; False if it cannot be read."""
    try:
        with open(str(log), "rb") as handle:
            handle.seek(0, 2)
            handle.seek(max(0, handle.tell() - LAST_BYTES))
            return is_collateral(handle.read().decode("utf-8", "replace"))
    except OSError:
        return False
