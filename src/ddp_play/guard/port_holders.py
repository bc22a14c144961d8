"""Programs that use TCP ports of this host without a lease: user and command, from /proc."""

from __future__ import annotations

import contextlib
import os
from typing import Dict, Iterable, List, NamedTuple

from .run_directory import user_name

TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
LISTEN = "0A"
SHOWN = 3


class Holder(NamedTuple):
    """User of a port, and its process if this user may see it."""

    port: int
    uid: int
    inode: str

    def words(self, pids: Dict[str, int]) -> str:
        """`process 4711 (nginx) of kim`."""
        pid, who = pids.get(self.inode), user_name(self.uid)
        return "process %d (%s) of %s" % (pid, _name(pid), who) if pid else "a process of %s" % who


def described(ports: Iterable[int]) -> str:
    """Who listens on these ports, the first few; empty if nobody does."""
    rows = list(by_port(ports, most=SHOWN).items())
    more = ["%d more" % (len(rows) - SHOWN)] if len(rows) > SHOWN else []
    return ", ".join(["%d by %s" % row for row in rows[:SHOWN]] + more)


def by_port(ports: Iterable[int], most: int) -> Dict[int, str]:
    """Who listens on each of these ports, in their order; processes are looked up for so many of them at `most`."""
    wanted = set(ports)
    found = {row.port: row for row in reversed(_listeners()) if row.port in wanted}
    rows = [found[port] for port in sorted(found)]
    pids = _owners({row.inode for row in rows[:most]})
    return {row.port: row.words(pids) for row in rows}


def _listeners() -> List[Holder]:
    found = []
    for table in TABLES:
        with contextlib.suppress(OSError), open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if len(fields) > 9 and fields[3] == LISTEN:
                    found.append(Holder(int(fields[1].rpartition(":")[2], 16), int(fields[7]), fields[9]))
    return found


def _owners(inodes: Iterable[str]) -> Dict[str, int]:
    """Pids by the inodes of their sockets, of processes whose descriptors this user may see."""
    wanted = {"socket:[%s]" % inode: inode for inode in inodes}
    found: Dict[str, int] = {}
    for name in os.listdir("/proc") if wanted else ():
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            for descriptor in os.listdir("/proc/%s/fd" % name):
                with contextlib.suppress(OSError):
                    inode = wanted.get(os.readlink("/proc/%s/fd/%s" % (name, descriptor)))
                    if inode is not None:
                        found.setdefault(inode, int(name))
    return found


def _name(pid: int) -> str:
    try:
        with open("/proc/%d/comm" % pid, errors="replace") as comm:
            return comm.read().strip()
    except OSError:
        return "ended"
