"""GPU memory that processes of the last attempt still hold; a restart waits until they have released it."""

from __future__ import annotations

import subprocess
import time
from typing import Any, Dict, List, NamedTuple, Optional

from . import gpus, processes
from .refusal import Refused

# The driver needs seconds to release the memory of a large killed process.
FREE_S = 30.0
POLL_S = 0.5
SLOT = "gpu-"  # a rank's slot lease is named after the UUID of its GPU
QUERY = ["--query-compute-apps=gpu_uuid,pid,used_memory,process_name", "--format=csv,noheader,nounits"]


class Holder(NamedTuple):
    """A process with memory on a GPU; `memory_mib` is empty where nvidia-smi does not report it."""

    gpu: str
    pid: int
    memory_mib: str
    name: str

    def words(self) -> str:
        """`pid 4711 (python, 71000 MiB on GPU-aaaa)`."""
        memory = "%s MiB" % self.memory_mib if self.memory_mib else "memory"
        return "pid %d (%s, %s on %s)" % (self.pid, self.name, memory, self.gpu)


def parse_holders(text: str) -> List[Holder]:
    """Compute processes from the output of nvidia-smi; the name comes last, because it may contain commas."""
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",", 3)]
        if len(cells) == 4 and cells[1].isdigit():
            found.append(Holder(cells[0], int(cells[1]), cells[2] if cells[2].isdigit() else "", cells[3]))
    return found


def age_s(pid: int) -> Optional[float]:
    """Seconds since a process started; None if it has ended, although the driver may still hold its memory."""
    ticks = processes.start_ticks(pid)
    return None if ticks is None else processes.uptime_s() - ticks / processes.TICKS_PER_S


def holders(uuids: List[str], run_age_s: float) -> List[Holder]:
    """Processes on these GPUs that are not older than the run. Raises OSError or SubprocessError."""
    found = []
    for holder in parse_holders(*gpus.smi(QUERY)):
        age = age_s(holder.pid)
        if holder.gpu in uuids and (age is None or age < run_age_s):
            found.append(holder)
    return found


def wait_until_free(spec: Dict[str, Any]) -> None:
    """Wait until no process from the time of the run has memory on the GPUs of this restart. Raises Refused."""
    names = (spec.get("slots") or {}).get("names") or []
    uuids = [name[len(SLOT) :] for name in names if name.startswith(SLOT)]
    if not spec.get("continues") or not uuids:
        return
    began = time.monotonic()
    while True:
        left, problem = _look(uuids, float(spec.get("run_age_s") or 0) + time.monotonic() - began)
        if not left and not problem:
            return
        if time.monotonic() - began > FREE_S:
            raise _refusal(left, problem)
        time.sleep(POLL_S)


def _look(uuids: List[str], run_age_s: float) -> "tuple[List[Holder], str]":
    """(processes with memory, problem of nvidia-smi); a driver that does not answer counts as busy."""
    try:
        return holders(uuids, run_age_s), ""
    except (OSError, subprocess.SubprocessError) as error:
        return [], str(error)


def _refusal(left: List[Holder], problem: str) -> Refused:
    if problem:
        return Refused(
            "nvidia-smi does not work after the last attempt: %s" % problem,
            hint="on the host: nvidia-smi; journalctl -k -g NVRM shows the driver's errors",
        )
    shown = ", ".join(holder.words() for holder in left[:8]) + (" and more" if len(left) > 8 else "")
    return Refused(
        "the GPUs of the restart are not free %.0f s after the end of the last attempt: %s" % (FREE_S, shown),
        hint="on the host: ps -o pid,user,stat,args -p %s; a process that kill -9 does not end needs a reboot"
        % ",".join(str(holder.pid) for holder in left[:8]),
    )
