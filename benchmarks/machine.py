"""Description of the machine, stored with every result."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib.metadata import version


def describe() -> dict[str, object]:
    """Processors, memory, kernel and current load of the machine, and the versions under test."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpus": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "docker": _engine(),
        "ddp_play": version("ddp-play"),
        "load_average": os.getloadavg(),
        "measured": time.strftime("%Y-%m-%d %H:%M:%S"),
    }


def _engine() -> str:
    argv = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:
        return ""
