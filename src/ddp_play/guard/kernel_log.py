"""Lines of the kernel log about a rank's end: OOM kills and GPU errors (Xid), matched to the rank.

Hosts that are containers share one kernel log. A line is matched to a rank by control group, or by pid in the first
pid namespace, never by its time alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections import deque
from typing import Deque, Dict, List, Optional, Tuple

from .programs import which
from .rank_failure import OOM_EVENT, OOM_GROUP, OOM_KILLED, is_oom

KMSG = "/dev/kmsg"
# Inode of the first pid namespace (PROC_PID_INIT_INO in the kernel); the kernel log uses its pids.
FIRST_PID_NAMESPACE = 0xEFFFFFFC
MAX_LINES = 6
KEPT_LINES = 2000
DMESG_LINE = re.compile(r"<\d+>\[ *(?P<at>\d+\.\d+)\] (?P<text>.*)")
# The clock of kernel messages differs slightly from CLOCK_MONOTONIC.
CLOCKS_APART_S = 2.0
TOOL_S = 4.0

XID = re.compile(r"NVRM: Xid \(PCI:(?P<pci>[0-9a-fA-F:]+)[^)]*\): (?P<code>\d+)(, pid='?(?P<pid>\d+))?")


class KernelLog:
    """Kernel messages since this object was created. `problem` says why they cannot be read, else empty."""

    def __init__(self) -> None:
        self.problem = ""
        self._read: Deque[str] = deque(maxlen=KEPT_LINES)
        self._since = time.time()
        self._since_boot_s = time.clock_gettime(time.CLOCK_MONOTONIC)
        try:
            self._fd: Optional[int] = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError:
            self._fd = None

    def lines(self) -> List[str]:
        """Messages since the creation of this object, at most KEPT_LINES: a rank may end long after its cause."""
        if self._fd is not None:
            self._read.extend(self._from_kmsg(self._fd))
            return list(self._read)
        found = printed(self._since, self._since_boot_s)
        if found is None:
            self.problem = "the kernel log cannot be read by this user (root can, and members of systemd-journal)"
        return found or []

    def _from_kmsg(self, fd: int) -> List[str]:
        found: List[str] = []
        while True:
            try:
                record = os.read(fd, 8192)
            except BrokenPipeError:
                continue  # older records were overwritten: continue with the oldest one left
            except OSError:  # EAGAIN: that was the last one
                return found
            if not record:
                return found
            found.append(record.split(b"\n", 1)[0].partition(b";")[2].decode("utf-8", "replace"))


def printed(since: float, since_boot_s: float) -> Optional[List[str]]:
    """Messages since a time of the wall clock and of CLOCK_MONOTONIC, from dmesg, else journalctl; None from neither.

    dmesg works for root in containers without /dev/kmsg.
    """
    rows = [DMESG_LINE.match(line) for line in output_lines("dmesg", "--raw")]
    if any(rows):
        return [row["text"] for row in rows if row and float(row["at"]) > since_boot_s - CLOCKS_APART_S]
    return output_lines("journalctl", "--dmesg", "--output=cat", "--quiet", "--no-pager", "--since=@%d" % since) or None


def output_lines(name: str, *words: str) -> List[str]:
    """Lines that a program prints; none if it is missing or fails."""
    program = which(name)
    if program:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            done = subprocess.run([program, *words], capture_output=True, timeout=TOOL_S, check=False)
            if done.returncode == 0:
                return done.stdout.decode("utf-8", "replace").splitlines()
    return []


def in_first_pid_namespace() -> bool:
    """Whether pids of this process are the pids of the kernel log."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == FIRST_PID_NAMESPACE
    except OSError:
        return False


def lines_about(lines: List[str], *, pids: List[int], group: str, gpus: List[str]) -> List[str]:
    """The last lines about these processes, this control group or, for Xid lines without a pid, these PCI addresses.

    `pids` must be empty outside the first pid namespace, `group` if another host could have one of this name.
    """
    found, killed = [], set(pids)
    for line in lines:
        if _is_our_kill(line, killed, group):
            found.append(line)
            event = OOM_EVENT.search(line)
            killed |= {int(event["pid"])} if event else set()  # the next line has only the pid
        elif _kills(line, killed) or _is_xid(line, pids, gpus):
            found.append(line)
    return found[-MAX_LINES:]


def _is_our_kill(line: str, pids: "set[int]", group: str) -> bool:
    event = OOM_EVENT.search(line)
    if event:
        return _is_group(event["group"], group) or int(event["pid"]) in pids
    older = OOM_GROUP.search(line)
    return bool(older) and _is_group(older["group"] if older else "", group)


def _is_group(said: str, group: str) -> bool:
    """Whether it is the same group: the kernel writes the path from its root, a container sees only the end of it."""
    return len(group) > 1 and (said == group or said.endswith(group) or (group + "/") in said)


def _kills(line: str, pids: "set[int]") -> bool:
    match = OOM_KILLED.search(line)
    return bool(match) and int((match["pid"] or match["pid2"]) if match else 0) in pids


def _is_xid(line: str, pids: List[int], gpus: List[str]) -> bool:
    match = XID.search(line)
    if not match:
        return False
    if match["pid"] and int(match["pid"]) in pids:
        return True
    return not match["pid"] and any(gpu.lower().startswith(match["pci"].lower()) for gpu in gpus)


# -- control groups ----------------------------------------------------------------------------------


def memory_group(pid: int) -> Tuple[str, str]:
    """(path of a process's memory control group as seen on this host, its directory); empty if unknown."""
    try:
        with open("/proc/%d/cgroup" % pid) as handle:
            rows = [line.rstrip("\n").split(":", 2) for line in handle]
    except OSError:
        return "", ""
    for _, controllers, path in rows:
        if "memory" in controllers.split(","):
            return path, "/sys/fs/cgroup/memory" + path
    for number, controllers, path in rows:
        if number == "0" and not controllers:
            return path, "/sys/fs/cgroup" + path
    return "", ""


def is_unique(group: str) -> bool:
    """Whether no other host has a group of this name: it contains an id, or pids are of the first namespace."""
    return in_first_pid_namespace() or bool(re.search(r"[0-9a-f]{64}|ddp-play-", group))


def oom_kills(directory: str) -> int:
    """Number of OOM kills in this control group; 0 if the kernel does not report it."""
    for name in ("memory.events", "memory.oom_control"):
        try:
            with open(os.path.join(directory, name)) as handle:
                counts = dict(line.split()[:2] for line in handle)
            return int(counts.get("oom_kill", 0))
        except (OSError, ValueError):
            continue
    return 0


class Witness:
    """What is recorded of a rank while it runs, to explain its end."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.group, self._directory = memory_group(pid)
        self._kills = oom_kills(self._directory)
        self._looked = time.monotonic()

    def look(self) -> None:
        """Check at most once a second whether the process was moved to another group."""
        if time.monotonic() - self._looked < 1.0:
            return
        self._looked = time.monotonic()
        group, directory = memory_group(self.pid)
        if group and group != self.group:
            self.group, self._directory = group, directory
            self._kills = oom_kills(directory)

    def killed_for_memory(self) -> bool:
        """Whether there was an OOM kill in its control group since the rank started."""
        return oom_kills(self._directory) > self._kills

    def said(self, lines: List[str], gpus: List[str]) -> List[str]:
        """The lines about this rank."""
        pids = [self.pid] if in_first_pid_namespace() else []
        return lines_about(lines, pids=pids, group=self.group if is_unique(self.group) else "", gpus=gpus)


def explain(
    witness: Optional[Witness], lines: List[str], row: Dict[str, object], gpus: List[str], *, problem: str = ""
) -> None:
    """Set `kernel` (lines) and `oom` in a rank's row. `problem`: why the kernel log cannot be read."""
    if witness is None:
        return
    said = witness.said(lines, gpus)
    counted = witness.killed_for_memory()
    if counted and not is_oom(said):
        why = problem or "the kernel log has no line about it"
        said.append("OOM kill in control group %s (counted by the group; %s)" % (witness.group, why))
    row["kernel"] = said
    row["oom"] = bool(row["oom"]) or ((counted or is_oom(said)) and row["signal"] == 9)
