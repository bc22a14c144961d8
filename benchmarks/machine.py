"""The machine that measures: its description, stored with every result, and signals that leave nothing on it."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import time
from importlib.metadata import version


def describe() -> dict[str, object]:
    """Processors, memory, kernel, current load and speed of the machine, and the versions under test."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpus": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "docker": _engine(),
        "ddp_play": version("ddp-play"),
        "load_average": os.getloadavg(),
        "loop_ms": _loop_ms(),
        "measured": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def interrupt_on_signals() -> None:
    """Let SIGINT, SIGTERM and SIGHUP interrupt this program, also in the background: it then removes its lab."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)


def _loop_ms() -> float:
    """CPU time of a fixed loop. What shares the hardware can make a machine half as fast without a load of its own."""
    began = time.process_time()
    for _ in range(1_000_000):
        pass
    return round(1000 * (time.process_time() - began), 1)


def _engine() -> str:
    argv = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""
