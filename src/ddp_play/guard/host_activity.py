"""What runs on this host now, of all users, and how busy it is (`ddp-play top`).

Who runs and which slots are held is visible to everybody; states of ranks only to the run's user and to root.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from . import gpus, leases, processes
from .bounded_reading import read_all
from .guard_files import MAX_NAME, Claim, GuardFiles
from .host_counters import GPU_DRIVER, HostCounters
from .processes import PAGE_BYTES, TICKS_PER_S
from .protocol import split_run_key
from .run_directory import HostRun, user_name
from .running_guards import guards

MAX_RUNS, MAX_SLOTS = 64, 1024
# A sick GPU may hold nvidia-smi where nothing can end it: then it is asked again after the second time only.
GPU_S, GPU_PAUSE_S = 2.0, 300.0
SLOTS = ("slot-", "gpu-")
# Fields of /proc/PID/stat after the name.
PARENT, TIMES, STARTED, PAGES = 1, (11, 12), 19, 21


class Usage(NamedTuple):
    """CPU time in seconds, and memory in bytes."""

    cpu_s: float
    memory: int


class HostActivity:
    """Readings for one channel; rates are those since the reading before."""

    def __init__(self) -> None:
        self._host = HostCounters()
        self._at = 0.0
        self._busy_s: Optional[float] = None
        self._used: Dict[int, float] = {}  # CPU time of each run's processes, by its guard
        self._owners: Dict[Tuple[int, Optional[int]], str] = {}
        self._files = GuardFiles()
        self._ask_gpus_at = 0.0  # on the clock of time.monotonic()

    def read(self) -> Dict[str, Any]:
        """Runs with their slots and usage, and the load of the host. What cannot be read is left out."""
        now, found = processes.uptime_s(), guards()
        held = holders()
        counters = self._host.read()
        busy_s = counters.get("cpu")
        seconds = now - self._at if self._at else 0.0
        row: Dict[str, Any] = {"cores": os.cpu_count(), **self._gpus()}
        row.update({name: counters[name] for name in ("memory", "memory_total") if name in counters})
        if (cpu := _rate(self._busy_s, busy_s, seconds)) is not None:
            row["cpu"] = cpu
        known = usages() if found else {}
        children = children_of(known)
        rows, used = [], {}
        for pid, run in self._runs(found, now).items():
            usage = usage_below(known, children, pid, *run.pop("pids"))
            used[pid] = usage.cpu_s
            if (cpu := _rate(self._used.get(pid), usage.cpu_s, seconds)) is not None:
                run["cpu"] = cpu
            slots = sorted(name for name, holder in held.items() if holder == pid)[:MAX_SLOTS]
            rows.append({**run, "memory": usage.memory, "slots": slots})
        self._at, self._busy_s, self._used = now, busy_s, used
        others = sorted(name for name, holder in held.items() if holder not in found)
        return {**row, "runs": rows, "slots_of_others": others[:MAX_SLOTS]}

    def _runs(self, found: Dict[int, HostRun], now: float) -> Dict[int, Dict[str, Any]]:
        """The runs by the pids of their guards, as far as this process may see them."""
        claims, began = {}, {}
        for pid, place in sorted(found.items())[:MAX_RUNS]:
            fields = processes.stat_fields(pid)
            try:
                uid = os.stat("/proc/%d" % pid).st_uid
            except OSError:
                continue  # it has ended meanwhile
            if fields:
                began[pid] = int(fields[STARTED])
                claims[pid] = Claim(place, uid, is_known=(pid, began[pid]) in self._owners)
        readable = {pid: claim for pid, claim in claims.items() if os.geteuid() in (0, claim.uid)}
        told = self._files.read(readable)
        return {pid: self._run(pid, claim, began[pid], now, told.get(pid)) for pid, claim in claims.items()}

    def _run(self, pid: int, claim: Claim, started: int, now: float, told: Optional[Dict[str, Any]]) -> Dict[str, Any]:
        """A run as its files tell it; None if they are private to its user."""
        place, uid, _ = claim
        files = told or {}
        owner = self._owners.get((pid, started)) or leases.named_owner(str(files.get("owner") or ""), uid)
        if told is None or "owner" in files:
            self._owners[pid, started] = owner
        name, token = split_run_key(place.run_key)
        private = "private to %s" % user_name(uid) if told is None else ""
        return {
            "run": name[:MAX_NAME],
            "token": "" if private else token,
            "attempt": place.attempt,
            "owner": owner,
            "user": user_name(uid),
            "age_s": round(max(0.0, now - started / TICKS_PER_S), 1),
            "phase": files.get("phase", ""),
            "ranks": files.get("ranks", {}),
            "unreadable": (private or files.get("problem", ""))[:MAX_NAME],
            "pids": files.get("pids", []),
        }

    def _gpus(self) -> Dict[str, List[Optional[float]]]:
        """Utilization of each GPU in percent, in the order of nvidia-smi; without a driver nothing is started."""
        if not os.path.exists(GPU_DRIVER) or time.monotonic() < self._ask_gpus_at:
            return {}
        found = read_all({"gpus": (gpu_utilization, GPU_S)})["gpus"]
        if "value" in found:
            return {"gpus": found["value"]}
        if found["took_s"] >= GPU_S:
            self._ask_gpus_at = time.monotonic() + GPU_PAUSE_S
        return {}


def holders() -> Dict[str, int]:
    """Held slots of this host -> pid of the process that holds it; 0 if the kernel does not show it."""
    scope = leases.slot_scope()
    prefix = "@%s/" % scope
    bound = (name[len(prefix) :] for name in leases.bound_names() if name.startswith(prefix))
    found = {name: leases.listener(name, scope) for name in bound if name.startswith(SLOTS)}
    return {name: peer.pid if peer is not None else 0 for name, peer in found.items()}


def usages() -> Dict[int, Tuple[int, Usage]]:
    """Parent and usage of every process, by pid: read once, however many runs there are."""
    found = {}
    for name in os.listdir("/proc"):
        fields = processes.stat_fields(int(name)) if name.isdigit() else None
        if fields:
            cpu_s = sum(int(fields[at]) for at in TIMES) / TICKS_PER_S
            found[int(name)] = int(fields[PARENT]), Usage(cpu_s, max(0, int(fields[PAGES])) * PAGE_BYTES)
    return found


def usage_below(known: Dict[int, Tuple[int, Usage]], children: Dict[int, List[int]], *roots: int) -> Usage:
    """Sum of these processes and of all below them."""
    queue, seen = list(roots), set()
    while queue:
        pid = queue.pop()
        if pid in known and pid not in seen:
            seen.add(pid)
            queue += children.get(pid, ())
    rows = [known[pid][1] for pid in seen]
    return Usage(sum(row.cpu_s for row in rows), sum(row.memory for row in rows))


def children_of(known: Dict[int, Tuple[int, Usage]]) -> Dict[int, List[int]]:
    """Pids by the pid of their parent."""
    found: Dict[int, List[int]] = {}
    for pid, (parent, _) in known.items():
        found.setdefault(parent, []).append(pid)
    return found


def gpu_utilization() -> List[Optional[float]]:
    """Percent by GPU. Raises OSError or SubprocessError."""
    lines = gpus.smi(["--query-gpu=utilization.gpu", "--format=csv,noheader,nounits"])
    return [_percent(line) for line in lines[0].splitlines() if line.strip()]


def _percent(text: str) -> Optional[float]:
    try:
        return float(text)
    except ValueError:  # [N/A] of a GPU that is divided
        return None


def _rate(before: Optional[float], after: Optional[float], seconds: float) -> Optional[float]:
    if before is None or after is None or after < before or seconds <= 0:
        return None
    return round((after - before) / seconds, 2)
