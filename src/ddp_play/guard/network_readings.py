"""Readings of NICs, routes and listening sockets for `ddp-play check`."""

from __future__ import annotations

import contextlib
import glob
import os
import socket
from typing import Any, Dict, List

from . import port_holders
from .machine_readings import text
from .network_probe import family_of
from .nic_counters import firmware


def nics(root: str = "") -> Dict[str, Dict[str, Any]]:
    """By interface, without loopback: link state, duplex, carrier losses since boot, firmware."""
    found = {}
    for path in sorted(glob.glob(root + "/sys/class/net/*")):
        if text(path + "/type") != "772":
            found[os.path.basename(path)] = {
                "state": text(path + "/operstate"),
                "carrier": text(path + "/carrier"),
                "duplex": text(path + "/duplex"),
                "carrier_losses": int(text(path + "/carrier_down_count") or 0),
                "hardware": os.path.exists(path + "/device"),
                "firmware": firmware(os.path.basename(path)) if os.path.exists(path + "/device") else "",
            }
    return found


def default_routes(root: str = "") -> List[Dict[str, Any]]:
    """IPv4 default routes of the main table: interface, gateway and metric."""
    found = []
    for line in text(root + "/proc/net/route").splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
            gateway = ".".join(str(byte) for byte in bytes.fromhex(fields[2])[::-1])
            found.append({"interface": fields[0], "gateway": gateway, "metric": int(fields[6])})
    return found


def source_addresses(targets: List[str]) -> Dict[str, str]:
    """By address of a peer, the own address that packets to it get from the routing table; or the error."""
    found = {}
    for target in targets:
        with contextlib.closing(socket.socket(family_of(target), socket.SOCK_DGRAM)) as sock:
            try:
                sock.connect((target, 9))  # sends nothing
                found[target] = str(sock.getsockname()[0])
            except OSError as error:
                found[target] = error.strerror or str(error)
    return found


def listeners(first: int, last: int) -> Dict[str, str]:
    """Ports of the range on which a program listens, and which one, as far as this user may see it."""
    ports = range(first, last + 1)
    return {str(port): who for port, who in port_holders.by_port(ports, most=len(ports)).items()}
