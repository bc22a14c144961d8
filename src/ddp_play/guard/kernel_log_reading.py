"""Reading of the kernel log for `ddp-play check`: lines of the last day that tell of broken hardware or mounts."""

from __future__ import annotations

import re
import time
from typing import Dict, List, Tuple

from . import kernel_log
from .bounded_reading import NotReadableHere
from .rank_failure import OOM_KILLED

DAY_S = 86400.0
SHOWN = 3
# Xids after which a GPU goes on, in most cases because of the program that used it: 13, 31 and 43 according to NVIDIA's
# catalog (https://docs.nvidia.com/deploy/xid-errors/analyzing-xid-catalog.html), 45 and 68 to NVIDIA/k8s-device-plugin.
PROGRAM_XID = re.compile(r"NVRM: Xid \([^)]*\): (?:13|31|43|45|68)\b")
KINDS: Tuple[Tuple[str, "re.Pattern[str]"], ...] = (
    ("gpu_program", PROGRAM_XID),
    ("gpu", re.compile(r"NVRM: Xid|SXid \(")),
    ("disk", re.compile(r"\bI/O error|EXT4-fs error|XFS .*(?:corruption|shut ?down)|Buffer I/O|nvme.*timeout", re.I)),
    ("memory", OOM_KILLED),
    ("machine", re.compile(r"Machine [Cc]heck|\[Hardware Error\]|EDAC .*\bUE\b|soft lockup|blocked for more than")),
    ("nfs", re.compile(r"nfs: server .* (?:not responding|timed out)")),
    ("network", re.compile(r"mlx5_core.*(?:health|fatal|failed)|NETDEV WATCHDOG|Link is Down", re.I)),
)  # fmt: skip


def read() -> Dict[str, Dict[str, object]]:
    """By kind: number of lines of the last day, and the last of them."""
    if not kernel_log.in_first_pid_namespace():
        raise NotReadableHere("this host is a container: its kernel's log is about the whole machine")
    lines = kernel_log.printed(time.time() - DAY_S, time.clock_gettime(time.CLOCK_MONOTONIC) - DAY_S)
    if lines is None:
        raise NotReadableHere("this user may not read the kernel log (root may, and members of systemd-journal)")
    return kinds_of(lines)


def kinds_of(lines: List[str]) -> Dict[str, Dict[str, object]]:
    """Lines about trouble, by kind; a line counts for the first kind that fits."""
    found: Dict[str, List[str]] = {}
    for line in lines:
        kind = next((name for name, pattern in KINDS if pattern.search(line)), "")
        if kind:
            found.setdefault(kind, []).append(line)
    return {kind: {"lines": len(rows), "last": [row[:300] for row in rows[-SHOWN:]]} for kind, rows in found.items()}
