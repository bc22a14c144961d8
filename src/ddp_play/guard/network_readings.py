"""Readings of NICs, routes and listening sockets for `ddp-play check`."""

from __future__ import annotations

import contextlib
import glob
import os
import socket
from typing import Any, Dict, List

from .machine_readings import text

LISTENING = "0A"  # TCP_LISTEN of include/net/tcp_states.h


def nics(root: str = "") -> Dict[str, Dict[str, Any]]:
    """By interface, without loopback: link state, duplex, carrier losses since boot."""
    found = {}
    for path in sorted(glob.glob(root + "/sys/class/net/*")):
        if text(path + "/type") != "772":
            found[os.path.basename(path)] = {
                "state": text(path + "/operstate"),
                "carrier": text(path + "/carrier"),
                "duplex": text(path + "/duplex"),
                "carrier_losses": int(text(path + "/carrier_down_count") or 0),
                "hardware": os.path.exists(path + "/device"),
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
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        with contextlib.closing(socket.socket(family, socket.SOCK_DGRAM)) as sock:
            try:
                sock.connect((target, 9))  # sends nothing
                found[target] = str(sock.getsockname()[0])
            except OSError as error:
                found[target] = error.strerror or str(error)
    return found


def listeners(first: int, last: int, root: str = "") -> Dict[str, str]:
    """Ports of the range on which a program listens, and which one, as far as this user may see it."""
    inodes: Dict[str, str] = {}
    for name in ("tcp", "tcp6"):
        for line in text("%s/proc/net/%s" % (root, name)).splitlines()[1:]:
            fields = line.split()
            port = int(fields[1].rpartition(":")[2], 16)
            if fields[3] == LISTENING and first <= port <= last:
                inodes[fields[9]] = str(port)
    owners = _owners(set(inodes), root) if inodes else {}
    return {port: owners.get(inode, "a process of another user") for inode, port in inodes.items()}


def _owners(inodes: "set[str]", root: str) -> Dict[str, str]:
    found = {}
    for path in glob.glob(root + "/proc/[0-9]*/fd"):
        with contextlib.suppress(OSError):
            for fd in os.listdir(path):
                inode = os.readlink(os.path.join(path, fd)).partition("socket:[")[2].rstrip("]")
                if inode in inodes:
                    pid = path.split("/")[-2]
                    command = text("%s/proc/%s/cmdline" % (root, pid)).replace("\0", " ")[:100]
                    found[inode] = "pid %s (%s)" % (pid, command.strip())
    return found
