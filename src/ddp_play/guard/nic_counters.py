"""What NICs and RDMA ports have counted since boot, and their firmware, for `ddp-play check`."""

from __future__ import annotations

import array
import fcntl
import glob
import os
import socket
import struct
from typing import Dict

from .machine_readings import text

# linux/sockios.h, linux/ethtool.h: struct ethtool_drvinfo is the command, four texts of 32 bytes, and more
SIOCETHTOOL, ETHTOOL_GDRVINFO = 0x8946, 3
DRVINFO_BYTES, TEXT = 196, 32
MOST_FILES = 4000  # of a host with many ports


def counters(root: str = "") -> Dict[str, Dict[str, int]]:
    """By interface or RDMA port, each counter that is not zero; an RDMA port without one has a row all the same."""
    found: Dict[str, Dict[str, int]] = {}
    paths = glob.glob(root + "/sys/class/net/*/statistics/*")
    paths += glob.glob(root + "/sys/class/infiniband/*/ports/*/counters/*")
    paths += glob.glob(root + "/sys/class/infiniband/*/ports/*/hw_counters/*")
    for path in sorted(paths)[:MOST_FILES]:
        value = text(path)
        words = path[len(root) :].split("/")
        is_rdma = words[3] == "infiniband"
        port = "%s port %s" % (words[4], words[6]) if is_rdma else words[4]
        if value.isdigit() and (is_rdma or value != "0"):
            found.setdefault(port, {})
            if value != "0":
                found[port][words[-1]] = int(value)
    return found


def firmware(interface: str) -> str:
    """Driver and firmware version of a NIC, as `ethtool -i` prints them; empty where the driver tells none."""
    answer = array.array("B", struct.pack("=I", ETHTOOL_GDRVINFO).ljust(DRVINFO_BYTES, b"\0"))
    request = struct.pack("16sP", os.fsencode(interface)[:15], answer.buffer_info()[0]).ljust(40, b"\0")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            fcntl.ioctl(sock, SIOCETHTOOL, request)
    except OSError:
        return ""
    driver, version = (_text(answer.tobytes(), at) for at in (4, 4 + 2 * TEXT))
    return "%s %s" % (driver, version) if version and version != "N/A" else ""


def _text(data: bytes, at: int) -> str:
    return data[at : at + TEXT].split(b"\0")[0].decode("ascii", "replace").strip()
