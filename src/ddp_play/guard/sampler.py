"""The process that samples a host while its ranks run: `samples ATTEMPT_DIRECTORY`. The guard starts and ends it.

A process of its own, because a sick GPU or disk may hold whoever asks it for minutes: neither the guard nor its leases
may wait for that. It reads the ranks' pids from state.json, and ends when its stdin is closed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

from . import processes, sample_rows
from .host_counters import HostCounters, has_devices
from .rank_usage import RankProcesses
from .run_directory import HostRun, read_json
from .sample_file import SampleFile

if TYPE_CHECKING:
    from .device_readings import DeviceReadings

# Share of one core that sampling may use: samples are taken less often where one takes longer.
MAX_SHARE = 0.001
LEAST_S, MAX_INTERVAL_S = 0.5, 30.0
SMOOTHING = 0.2  # weight of the newest sample's cost
# Children of all threads of the ranks are looked for this often; those of the first thread each time.
ALL_THREADS_S = 30.0
NICENESS = 10
# Open files besides those of the ranks' processes, which would else take all that this process may have.
OTHER_FILES = 48


class Sampler:
    """Samples of one host for one attempt."""

    def __init__(self, place: HostRun) -> None:
        self._place = place
        self._host = HostCounters()
        self._devices = _start_devices() if has_devices() else None
        self._ranks: Dict[str, RankProcesses] = {}
        self._pids: Dict[str, Tuple[int, Optional[int]]] = {}
        self._stamp: Any = None
        self._all_threads_at = 0.0
        self._last = self._read(0.0)
        self._file = SampleFile(place.samples, self._header())

    def start(self) -> None:
        """Begin the file. Raises OSError."""
        self._file.start()

    def take(self) -> None:
        """Add a row about the time since the last call. Raises FileNotFoundError once the attempt was cleaned up."""
        now = self._read(self._last["up"])
        row = sample_rows.row_between(self._last, now)
        self._last = now
        if self._devices is not None and self._devices.described and "gpus" not in self._file.header:
            self._file.header = self._header()
            self._file.rewrite(now["up"])
        if row is not None:
            self._file.append(row)

    def _header(self) -> Dict[str, Any]:
        header: Dict[str, Any] = {"cores": os.cpu_count(), "memory_total": self._last.get("memory_total")}
        if self._devices is not None and self._devices.described:
            header["gpus"] = self._devices.described
        return {name: value for name, value in header.items() if value is not None}

    def _read(self, last_up: float) -> Dict[str, Any]:
        found = self._host.read()
        found["up"] = processes.uptime_s()
        found["ranks"] = self._read_ranks(last_up)
        return {**found, **(self._devices.newest() if self._devices is not None else {})}

    def _read_ranks(self, last_up: float) -> Dict[str, Tuple[float, int]]:
        self._note_pids()
        all_threads = time.monotonic() - self._all_threads_at > ALL_THREADS_S
        if all_threads:
            self._all_threads_at = time.monotonic()
        found = {}
        for rank, usage in self._ranks.items():
            used = usage.read(last_up, all_threads=all_threads)
            if used is not None:
                found[rank] = used
        return found

    def _note_pids(self) -> None:
        """Follow other processes if state.json names others for the ranks."""
        try:
            stat = self._place.state.stat()
        except OSError:
            return
        if self._stamp == (stat.st_ino, stat.st_mtime_ns):
            return
        self._stamp = (stat.st_ino, stat.st_mtime_ns)
        rows = (read_json(self._place.state) or {}).get("ranks") or {}
        for rank, row in rows.items():
            pid, ticks = row.get("pid"), row.get("ticks")
            if pid and row.get("state") == "running" and self._pids.get(rank) != (pid, ticks):
                self._pids[rank] = (pid, ticks)
                most = max(1, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - OTHER_FILES) // len(rows))
                self._ranks[rank] = RankProcesses(int(pid), ticks, max_processes=most)


def _start_devices() -> DeviceReadings:
    from . import device_readings  # with ctypes, which only such hosts need

    readings = device_readings.DeviceReadings(device_readings.Devices)
    readings.start()
    return readings


class Pace:
    """Seconds between samples: those that were asked for, or more where samples cost more than MAX_SHARE."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._cost_s = 0.0

    def after(self, cost_s: float) -> float:
        """Seconds until the next sample, after one that took this CPU time."""
        self._cost_s += SMOOTHING * (cost_s - self._cost_s)
        return max(self._interval_s, min(MAX_INTERVAL_S, self._cost_s / MAX_SHARE))


def main(root: str) -> None:
    """Entry point of the verb `samples`. Ends when stdin is closed, after a last sample."""
    place = HostRun(Path(root))
    limits = (read_json(place.spec) or {}).get("limits") or {}
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    with contextlib.suppress(OSError, ValueError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        sampler, pace = Sampler(place), Pace(max(LEAST_S, float(limits["samples_s"])))
        sampler.start()
        wait_s = pace.after(0.0)
        while not select.select([0], [], [], wait_s)[0]:
            before = time.process_time()
            sampler.take()
            wait_s = pace.after(time.process_time() - before)
        sampler.take()
    except OSError as error:  # the disk takes no file, or the attempt was cleaned up
        raise SystemExit("no samples of this host: %s" % error) from error
