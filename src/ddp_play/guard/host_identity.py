"""Identity of this host in each attempt's spec: hosts that share a directory must not judge each other's runs.

A boot id changes with a reboot, and a pid means nothing on another host or in another container on the same kernel.
"""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Dict, List

from .guard_link import same_boot
from .run_directory import HostRun, base_dir

FIELD = "written_on"
MACHINE_ID = Path("/etc/machine-id")
UNKNOWN = "another host"


def identity() -> List[str]:
    """Host name and machine id. Copied disk images have the same machine id, so the name counts as well."""
    try:
        machine = MACHINE_ID.read_text(errors="replace").strip()
    except OSError:
        machine = ""
    return [socket.gethostname(), machine]


def other_host(place: HostRun, spec: Dict[str, Any], state: Dict[str, Any]) -> str:
    """Name of the host that prepared an attempt without a running guard here; empty if it was this one.

    Earlier versions recorded no host: on a file system of all hosts, their state is this host's if its boot is.
    """
    written = spec.get(FIELD)
    if isinstance(written, list) and written:
        return "" if written == identity() else str(written[0])
    return "" if base_dir() in place.root.parents or same_boot(state) else UNKNOWN
