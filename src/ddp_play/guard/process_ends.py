"""Wait for the end of processes that are not all children of this one (pidfd_open(2))."""

from __future__ import annotations

import os
import select
import time
from typing import Dict, Iterable, Optional, Set


class ProcessEnds:
    """Wakes when one of some processes ends; without pidfds (before Linux 5.3) only when the time is over."""

    def __init__(self) -> None:
        self._fds: Dict[int, int] = {}
        self._ended: Set[int] = set()
        self._poll = select.poll()

    def wait(self, pids: Iterable[int], rest_s: float, watch_s: float) -> None:
        """Return when one of these processes has ended, at the latest after `rest_s`.

        After `watch_s` if that cannot be waited for, or if one has ended before: it is looked at until it is recorded.
        """
        wanted = set(pids)
        self._forget(set(self._fds) - wanted)
        self._ended &= wanted
        known = all(self._watch(pid) for pid in sorted(wanted - self._ended))
        if not known or self._ended:
            time.sleep(watch_s)
            return
        ended = {fd for fd, _ in self._poll.poll(rest_s * 1000)}
        self._ended |= {pid for pid, fd in self._fds.items() if fd in ended}
        self._forget(set(self._ended))

    def _watch(self, pid: int) -> bool:
        if pid not in self._fds and (fd := _open(pid)) is not None:
            self._fds[pid] = fd
            self._poll.register(fd, select.POLLIN)
        return pid in self._fds

    def _forget(self, pids: Set[int]) -> None:
        for pid in pids & set(self._fds):
            fd = self._fds.pop(pid)
            self._poll.unregister(fd)
            os.close(fd)

    def close(self) -> None:
        """Close all descriptors."""
        self._forget(set(self._fds))


def _open(pid: int) -> Optional[int]:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # an old kernel or C library; or the process is gone
        return None
