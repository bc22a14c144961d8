"""Evidence of a hang from /proc, collected from every rank before any of them is ended."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import time
from typing import Any, Dict, List, Optional, Tuple

from . import processes

SAMPLE_S = 0.3
MAX_PROCESSES, MAX_THREADS = 12, 48
PYTHON = re.compile(r"^python[0-9.]*$|^pypy")
LAUNCHER = re.compile(rb"torchrun|torch[./]distributed[./](run|launch)")
TCP_STATES = {"01": "ESTABLISHED", "02": "SYN_SENT", "04": "FIN_WAIT1", "05": "FIN_WAIT2", "08": "CLOSE_WAIT"}


def _read(path: str, limit: int = 65536) -> str:
    try:
        with open(path, "rb") as handle:
            return handle.read(limit).decode("utf-8", "replace").rstrip("\n\0")
    except OSError as error:
        return "(%s)" % (error.strerror or error)


def tree(root: int) -> List[int]:
    """Pids of a rank's processes, parents before children, at most MAX_PROCESSES."""
    return [root, *processes.descendants(root)][:MAX_PROCESSES]


def is_python(pid: int) -> bool:
    """Whether the executable of this process is Python; the name of a wrapper would not tell."""
    with contextlib.suppress(OSError):
        return bool(PYTHON.match(os.path.basename(os.readlink("/proc/%d/exe" % pid))))
    return False


def main_processes(root: int) -> List[int]:
    """Pids of the Python processes that are the rank: below shells, inits and launchers, above their own children."""
    if is_python(root) and not LAUNCHER.search(_read("/proc/%d/cmdline" % root).encode()):
        return [root]
    found: List[int] = []
    for child in processes.children(root):
        found += main_processes(child)
    return found or ([root] if is_python(root) else [])


def cpu_s(pid: int) -> float:
    """CPU time of the process in seconds; 0 when it has ended."""
    fields = processes.stat_fields(pid)
    return (int(fields[11]) + int(fields[12])) / processes.TICKS_PER_S if fields else 0.0


def state_of(pid: int) -> str:
    """State letter of /proc/PID/stat (R, S, D, T, ...); X when the process has ended."""
    fields = processes.stat_fields(pid)
    return fields[0] if fields else "X"


def survey(roots: Dict[int, int]) -> Dict[int, Dict[str, Any]]:
    """rank -> pid, state, CPUs used and wait channel of its main process, over SAMPLE_S. `roots`: rank -> first pid."""
    mains = {rank: (main_processes(root) or [root])[0] for rank, root in roots.items()}
    before = {rank: cpu_s(pid) for rank, pid in mains.items()}
    began = time.monotonic()
    time.sleep(SAMPLE_S)
    took = time.monotonic() - began
    return {
        rank: {
            "pid": pid,
            "state": state_of(pid),
            "cpu": round((cpu_s(pid) - before[rank]) / took, 2),
            "wchan": _read("/proc/%d/wchan" % pid),
        }
        for rank, pid in mains.items()
    }


def describe(root: int, seen: Dict[str, Any]) -> str:
    """Text about a rank's processes, threads and sockets; `seen` is the rank's row of `survey`."""
    parts = ["main process %(pid)d: state %(state)s, %(cpu).2f CPUs, waits in %(wchan)s" % seen]
    for pid in tree(root):
        parts.append(_describe_process(pid))
    parts.append("== sockets\n" + ("\n".join(sockets(tree(root))) or "none that can be seen"))
    return "\n\n".join(parts) + "\n"


def _describe_process(pid: int) -> str:
    base = "/proc/%d" % pid
    lines = ["== process %d: %s" % (pid, _read(base + "/cmdline").replace("\0", " "))]
    wanted = ("Name", "State", "Tgid", "PPid", "TracerPid", "Uid", "VmRSS", "Threads", "SigPnd", "ShdPnd", "SigBlk")
    lines += [row for row in _read(base + "/status").splitlines() if row.split(":")[0] in wanted]
    lines.append("kernel stack:\n" + _read(base + "/stack"))
    with contextlib.suppress(OSError):
        for thread in sorted(os.listdir(base + "/task"), key=int)[:MAX_THREADS]:
            where = "%s/task/%s" % (base, thread)
            fields = processes.stat_fields(int(thread)) or ["?"]
            lines.append(
                "thread %s %s: state %s, waits in %s, syscall %s"
                % (thread, _read(where + "/comm"), fields[0], _read(where + "/wchan"), _read(where + "/syscall"))
            )
    return "\n".join(lines)


def socket_inodes(pids: List[int]) -> Dict[int, int]:
    """inode -> pid of every socket that these processes have open, where this user may read it."""
    found = {}
    for pid in pids:
        directory = "/proc/%d/fd" % pid
        with contextlib.suppress(OSError):
            for name in os.listdir(directory):
                with contextlib.suppress(OSError, ValueError):
                    target = os.readlink(directory + "/" + name)
                    if target.startswith("socket:["):
                        found[int(target[8:-1])] = pid
    return found


def sockets(pids: List[int]) -> List[str]:
    """One line per TCP connection of these processes: addresses, state, bytes in the queues."""
    inodes = socket_inodes(pids)
    rows = []
    for family in ("tcp", "tcp6"):
        for line in _read("/proc/%d/net/%s" % (pids[0], family), 1 << 22).splitlines()[1:]:
            cells = line.split()
            if len(cells) > 9 and cells[9].isdigit() and int(cells[9]) in inodes and cells[3] != "0A":
                sent, received = (int(part, 16) for part in cells[4].split(":"))
                rows.append(
                    "%s -> %s %s send queue %d receive queue %d (pid %d)"
                    % (
                        _endpoint(cells[1]),
                        _endpoint(cells[2]),
                        TCP_STATES.get(cells[3], cells[3]),
                        sent,
                        received,
                        inodes[int(cells[9])],
                    )
                )
    return rows


def _endpoint(text: str) -> str:
    """`0100007F:1F90` -> 127.0.0.1:8080; IPv6 stays as the kernel writes it."""
    address, _, port = text.partition(":")
    if len(address) == 8:
        address = ".".join(str(byte) for byte in reversed(bytes.fromhex(address)))
    return "%s:%d" % (address, int(port, 16))


# -- stacks ------------------------------------------------------------------------------------------


def freeze(pids: List[int]) -> None:
    """Send SIGSTOP, so that no process ends because of another before its own stack is printed."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGSTOP)


def thaw(pids: List[int]) -> None:
    """Send SIGCONT."""
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGCONT)


def request_stacks(root: int, ticks: Optional[int]) -> bool:
    """Send SIGABRT: with PYTHONFAULTHANDLER, Python prints the stack of every thread and ends. False: not permitted.

    The signal is pending while the process is frozen, and is delivered when it is thawed. Core files are disabled: one
    could be as large as the memory of the rank.
    """
    if not processes.alive(root, ticks):
        return True
    mains = main_processes(root) or [root]
    told = [_abort(pid) for pid in mains]
    thaw(mains)
    return all(told)


def _abort(pid: int) -> bool:
    with contextlib.suppress(OSError, ValueError):
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
    try:
        os.kill(pid, signal.SIGABRT)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def capture(ranks: Dict[str, Dict[str, Any]]) -> Tuple[Dict[str, Dict[str, Any]], Dict[str, str]]:
    """Freeze every running rank of the guard's state; return (rows of `survey`, texts of `describe`) by rank."""
    roots = {
        int(rank): int(row["pid"])
        for rank, row in ranks.items()
        if row["state"] == "running" and row["pid"] and processes.alive(int(row["pid"]), row["ticks"])
    }
    seen = survey(roots)
    texts = {str(rank): describe(root, seen[rank]) for rank, root in roots.items()}
    for root in roots.values():
        freeze(main_processes(root) or [root])
    return {str(rank): row for rank, row in seen.items()}, texts
