"""CPU time and memory of a rank: of its first process and all below it, in containers and outside of them.

Processes are found by their parents, which is the same with any control groups and costs only the rank's own number of
processes. A process that has ended is in the CPU time of the parent that waited for it.
"""

from __future__ import annotations

import contextlib
import os
from typing import Dict, List, NamedTuple, Optional, Tuple

from .processes import PAGE_BYTES, TICKS_PER_S

STAT_BYTES = 2048
MAX_PROCESSES = 1000  # of one rank
# Fields after the command name: user and system time of the process, then of its children that have ended.
TIMES, START, RSS = (11, 12, 13, 14), 19, 21


class _Stat(NamedTuple):
    cpu_s: float
    start_s: float  # since boot
    memory: int


class RankProcesses:
    """The processes of one rank that are known, each with its open /proc/PID/stat: a reused pid is no mistake then."""

    def __init__(
        self, pid: int, ticks: Optional[int], proc: str = "/proc", *, max_processes: int = MAX_PROCESSES
    ) -> None:
        """`max_processes`: of this rank; each is an open file."""
        self._proc = proc
        self._max_processes = min(max_processes, MAX_PROCESSES)
        self._open: Dict[int, int] = {}
        self._known: Dict[int, float] = {}  # CPU time of each process at the last reading
        self._used_s = 0.0
        self._first = True
        found = self._add(pid)
        if found is not None and ticks is not None and round(found.start_s * TICKS_PER_S) != ticks:
            self.close()  # another process has the pid

    def read(self, since_s: float, *, all_threads: bool) -> Optional[Tuple[float, int]]:
        """(CPU seconds, bytes of memory); None once all processes have ended.

        The CPU time counts from the first reading. `since_s`: uptime of the host at the last reading: what a process
        used before does not count if it was found only now. `all_threads`: look for children of every thread, which
        takes longer; most are children of the first.
        """
        before = sum(self._known.values())
        self._look_for_children(all_threads)
        now: Dict[int, float] = {}
        memory = 0
        for pid in list(self._open):
            stat = self._stat(pid)
            if stat is None:
                continue
            if pid not in self._known and (self._first or stat.start_s < since_s):
                before += stat.cpu_s
            now[pid] = stat.cpu_s
            memory += stat.memory
        self._used_s += max(0.0, sum(now.values()) - before)
        self._known, self._first = now, False
        return (self._used_s, memory) if now else None

    def _look_for_children(self, all_threads: bool) -> None:
        queue = list(self._open)
        while queue:
            pid = queue.pop()
            for child in self._children(pid, all_threads):
                if len(self._open) >= self._max_processes:
                    return
                if child not in self._open and self._add(child) is not None:
                    queue.append(child)

    def _children(self, pid: int, all_threads: bool) -> List[int]:
        found: List[int] = []
        tasks = "%s/%d/task" % (self._proc, pid)
        with contextlib.suppress(OSError, ValueError):
            for thread in os.listdir(tasks) if all_threads else [str(pid)]:
                fd = os.open("%s/%s/children" % (tasks, thread), os.O_RDONLY | os.O_CLOEXEC)
                try:
                    found += [int(word) for word in os.read(fd, 1 << 16).split()]
                finally:
                    os.close(fd)
        return found

    def _add(self, pid: int) -> Optional[_Stat]:
        with contextlib.suppress(OSError):
            self._open[pid] = os.open("%s/%d/stat" % (self._proc, pid), os.O_RDONLY | os.O_CLOEXEC)
            return self._stat(pid)
        return None

    def _stat(self, pid: int) -> Optional[_Stat]:
        """Numbers of a process; None if it has ended, and it is forgotten."""
        try:
            fields = os.pread(self._open[pid], STAT_BYTES, 0).rpartition(b")")[2].split()
            cpu_s = sum(int(fields[at]) for at in TIMES) / TICKS_PER_S
            return _Stat(cpu_s, int(fields[START]) / TICKS_PER_S, int(fields[RSS]) * PAGE_BYTES)
        except (OSError, ValueError, IndexError):
            os.close(self._open.pop(pid))
            return None

    def close(self) -> None:
        """Forget all processes."""
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()
