"""Processes identified by pid and start time, because the kernel reuses pids."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from typing import Dict, List, Optional

PR_SET_CHILD_SUBREAPER = 36
# Units of the times and of the memory in /proc/PID/stat.
TICKS_PER_S, PAGE_BYTES = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


def become_subreaper() -> None:
    """Make orphans of descendants children of this process, so that it can end all that a rank forked."""
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def boot_id() -> str:
    """Id of this boot, or empty; start times of processes are only comparable within one boot."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as handle:
            return handle.read().strip()
    except OSError:
        return ""


def stat_fields(pid: int) -> Optional[List[str]]:
    """Fields of /proc/PID/stat after the command name: [0] state, [1] ppid, [17] threads, [19] start time in ticks."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as handle:
            text = handle.read().decode("utf-8", "replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()


def _has_ended(fields: List[str]) -> bool:
    """Whether this is a zombie without threads: one with threads may still write, on a server that hangs."""
    return fields[0] in ("Z", "X") and int(fields[17]) <= 1


def start_ticks(pid: int) -> Optional[int]:
    """Start time of a process in clock ticks since boot; None if there is no such process."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else None


def alive(pid: int, ticks: Optional[int]) -> bool:
    """Whether this process is running (a zombie is not); `ticks` None: any start time."""
    fields = stat_fields(pid)
    if not fields or _has_ended(fields):
        return False
    return ticks is None or int(fields[19]) == ticks


def signal_exactly(pid: int, ticks: Optional[int], signum: int, *, group: bool = False) -> bool:
    """Signal this process or its group; False if it has ended. Raises PermissionError."""
    if pid <= 1 or not alive(pid, ticks):
        return False
    try:
        if group:
            os.killpg(pid, signum)
        else:
            os.kill(pid, signum)
    except ProcessLookupError:
        return False
    return True


def _children_by_parent() -> Dict[int, List[int]]:
    """Parent pid -> pids of its living children, for all processes."""
    found: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields and not _has_ended(fields):
                found.setdefault(int(fields[1]), []).append(int(name))
    return found


def members(group: int) -> List[int]:
    """Pids of the living processes of a process group."""
    found = []
    for name in os.listdir("/proc"):
        fields = stat_fields(int(name)) if name.isdigit() else None
        if fields and int(fields[2]) == group and not _has_ended(fields):
            found.append(int(name))
    return found


def children(parent: int) -> List[int]:
    """Pids of the living children of a process."""
    return _children_by_parent().get(parent, [])


def descendants(*roots: int) -> List[int]:
    """Pids of all living processes below `roots`, parents before children."""
    families = _children_by_parent()
    found: List[int] = []
    queue = list(roots)
    while queue:
        below = families.get(queue.pop(0), [])
        found += below
        queue += below
    return found


def kill_descendants(root: int, signum: int = signal.SIGKILL) -> int:
    """Signal all processes below `root`; return the number of signalled ones."""
    count = 0
    for pid in descendants(root):
        with contextlib.suppress(OSError):
            os.kill(pid, signum)
            count += 1
    return count


def first_in_container(container_id: str) -> Optional[int]:
    """Oldest living process whose control group carries this id; None if there is none or the id is empty."""
    found = []
    for name in os.listdir("/proc") if container_id else ():
        if name.isdigit():
            with contextlib.suppress(OSError), open("/proc/%s/cgroup" % name, encoding="utf-8") as groups:
                ticks = start_ticks(int(name)) if container_id in groups.read() else None
                found += [(ticks, int(name))] if ticks is not None and alive(int(name), ticks) else []
    return min(found)[1] if found else None


def uptime_s() -> float:
    """Seconds since this host booted, including suspend; the same clock for all processes of the host."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def no_core_files() -> None:
    """Disable core files for this process and its children; a child may raise the limit again."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def pid_outside_namespace(pid: int, root: Optional[int]) -> Optional[int]:
    """Pid on this host of the process below `root` that has `pid` in its own pid namespace; None if there is none."""
    for found in descendants(root) if root else ():
        with contextlib.suppress(OSError), open("/proc/%d/status" % found, encoding="utf-8") as status:
            names = next((line.split()[1:] for line in status if line.startswith("NSpid:")), [])
            if len(names) > 1 and int(names[-1]) == pid:
                return found
    return None
