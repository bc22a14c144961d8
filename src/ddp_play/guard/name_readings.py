"""Readings of names and identity for `ddp-play check`: what names resolve to and how fast, and ids of the machine."""

from __future__ import annotations

import base64
import glob
import hashlib
import os
import socket
import threading
import time
from typing import Any, Dict, List

from .machine_readings import text

RESOLVE_S, SLOW_S = 4.0, 1.0


def resolve(names: List[str], limit_s: float = RESOLVE_S) -> Dict[str, Dict[str, Any]]:
    """By name: addresses or the error, and seconds. A name without an answer at the limit has `error` "no answer".

    A name that took long is asked for again: an answer that was lost once is no slow name service.
    """
    found = _resolve(names, limit_s)
    again = _resolve([name for name, row in found.items() if SLOW_S <= row["took_s"] < limit_s], limit_s / 2)
    for name, row in again.items():
        if row["took_s"] < found[name]["took_s"] and row["error"] != "no answer":
            found[name] = row
    return found


def _resolve(names: List[str], limit_s: float) -> Dict[str, Dict[str, Any]]:
    found: Dict[str, Dict[str, Any]] = {}

    def ask(name: str) -> None:
        began = time.monotonic()
        try:
            rows = socket.getaddrinfo(os.fsencode(name), None, type=socket.SOCK_STREAM)
            answer: Dict[str, Any] = {"addresses": sorted({str(row[4][0]) for row in rows}), "error": ""}
        except (OSError, UnicodeError) as error:
            answer = {"addresses": [], "error": getattr(error, "strerror", None) or str(error)}
        found[name] = {**answer, "took_s": round(time.monotonic() - began, 3)}

    threads = [threading.Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    until = time.monotonic() + limit_s
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    late = {"addresses": [], "error": "no answer", "took_s": limit_s}
    return {name: found.get(name, late) for name in names}


def identity(root: str = "") -> Dict[str, Any]:
    """What has to be different on every host: machine id, host keys, MAC addresses, GUIDs of RDMA devices."""
    return {
        "hostname": socket.gethostname(),
        "machine_id": text(root + "/etc/machine-id"),
        "host_keys": host_keys(root),
        "macs": macs(root),
        "guids": sorted(text(path) for path in glob.glob(root + "/sys/class/infiniband/*/node_guid")),
    }


def host_keys(root: str = "") -> List[str]:
    """Fingerprints of sshd's public keys, as `ssh-keygen -l` prints them."""
    found = []
    for path in sorted(glob.glob(root + "/etc/ssh/ssh_host_*_key.pub")):
        words = text(path).split()
        if len(words) > 1:
            digest = hashlib.sha256(base64.b64decode(words[1])).digest()
            found.append("SHA256:" + base64.b64encode(digest).decode().rstrip("="))
    return found


def macs(root: str = "") -> Dict[str, str]:
    """MAC address by interface: those of the hardware, and of the host's own end of a container's network."""
    found = {}
    for path in sorted(glob.glob(root + "/sys/class/net/*")):
        name, address = os.path.basename(path), text(path + "/address")
        bridge = os.path.isdir(path + "/bridge")
        if text(path + "/type") == "1" and not bridge and text(path + "/addr_assign_type") in ("0", "3"):
            found[name] = address
    return found
