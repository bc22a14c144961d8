"""Network interfaces and RDMA ports of this host, from sysfs and `ip -json`, and what its name resolves to."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any, Dict, List, Optional

NET = Path("/sys/class/net")
RDMA = Path("/sys/class/infiniband")
ROUTES = Path("/proc/net/route")
ROUTES6 = Path("/proc/net/ipv6_route")
# ARPHRD_* numbers of include/uapi/linux/if_arp.h
LINK_TYPES = {"1": "ethernet", "32": "infiniband", "772": "loopback"}


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _addresses() -> Dict[str, List[str]]:
    """Interface -> addresses with prefix length, global and host scope (no link-local)."""
    try:
        done = subprocess.run(["ip", "-json", "addr"], capture_output=True, timeout=10, check=True)
        listing = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return {}
    return {
        link["ifname"]: [
            "%s/%s" % (a["local"], a["prefixlen"])
            for a in link.get("addr_info", [])
            if a.get("scope") in ("global", "host") and "local" in a
        ]
        for link in listing
        if "ifname" in link
    }


def parse_shaping(text: str) -> Dict[str, int]:
    """Interface -> Mb/s of a token bucket at its root, from `tc -json qdisc show` (rates in bytes per second)."""
    found = {}
    for row in json.loads(text):
        rate = (row.get("options") or {}).get("rate")
        if row.get("root") and row.get("kind") == "tbf" and rate:
            found[row["dev"]] = int(rate) * 8 // 1000000
    return found


def _shaping() -> Dict[str, int]:
    """Interface -> Mb/s of its traffic shaper, which limits it below the speed of its driver."""
    try:
        done = subprocess.run(["tc", "-json", "qdisc", "show"], capture_output=True, timeout=10, check=True)
        return parse_shaping(done.stdout.decode())
    except (OSError, ValueError, KeyError, subprocess.SubprocessError):
        return {}


def default_route_interface() -> Optional[str]:
    """Interface of the default route, IPv4 before IPv6, or None; it decides between equally suitable networks."""
    for line in _read(ROUTES).splitlines()[1:]:
        fields = line.split()
        if len(fields) > 7 and fields[1] == "00000000" and fields[7] == "00000000":
            return fields[0]
    for line in _read(ROUTES6).splitlines():
        fields = line.split()
        if len(fields) > 9 and fields[0] == "0" * 32 and fields[1] == "00" and fields[9] != "lo":
            return fields[9]
    return None


def interfaces() -> List[Dict[str, Any]]:
    """Every interface: name, link, addresses, speed in Mb/s (None if the driver does not report it), MTU."""
    addresses, shaped = _addresses(), _shaping()
    default = default_route_interface()
    found = []
    for name in sorted(os.listdir(str(NET))) if NET.is_dir() else []:
        path = NET / name
        text = _read(path / "speed")
        speed = int(text) if text.lstrip("-").isdigit() and int(text) > 0 else None
        if name in shaped:
            speed = min(speed or shaped[name], shaped[name])
        found.append(
            {
                "name": name,
                "link": LINK_TYPES.get(_read(path / "type"), "other"),
                "addresses": addresses.get(name, []),
                "up": _read(path / "operstate") in ("up", "unknown"),
                "speed_mbps": speed,
                "mtu": int(_read(path / "mtu") or 0),
                "virtual": "/virtual/" in os.path.realpath(str(path)),
                "bridge": (path / "bridge").is_dir(),
                "default_route": name == default,
            }
        )
    return found


def rdma_ports() -> List[Dict[str, Any]]:
    """Every RDMA port: device, port, state, rate in Gb/s, link layer, network device."""
    found = []
    for device in sorted(RDMA.iterdir()) if RDMA.is_dir() else []:
        netdevs = sorted(os.listdir(str(device / "device" / "net"))) if (device / "device" / "net").is_dir() else []
        for port in sorted((device / "ports").iterdir()) if (device / "ports").is_dir() else []:
            rate = _read(port / "rate").split()
            found.append(
                {
                    "device": device.name,
                    "port": int(port.name),
                    "state": _read(port / "state").partition(":")[2].strip() or "unknown",
                    "rate_gbps": float(rate[0]) if rate else 0.0,
                    "link_layer": _read(port / "link_layer"),
                    "interfaces": netdevs,
                }
            )
    return found


def counters() -> Dict[str, Dict[str, int]]:
    """Bytes received (`rx`) and sent (`tx`) per interface and per RDMA port, whose counters have 4-byte units.

    veth interfaces of containers are left out: their traffic passes another interface as well.
    """
    found: Dict[str, Dict[str, int]] = {}
    for name in sorted(os.listdir(str(NET))) if NET.is_dir() else []:
        stats = NET / name / "statistics"
        if not name.startswith("veth") and stats.is_dir():
            found[name] = {"rx": int(_read(stats / "rx_bytes") or 0), "tx": int(_read(stats / "tx_bytes") or 0)}
    for port in rdma_ports():
        base = RDMA / port["device"] / "ports" / str(port["port"]) / "counters"
        found["%s:%d" % (port["device"], port["port"])] = {
            "rx": 4 * int(_read(base / "port_rcv_data") or 0),
            "tx": 4 * int(_read(base / "port_xmit_data") or 0),
        }
    return found


def name_resolves_to() -> List[str]:
    """Addresses that the host name resolves to; gloo binds to them unless GLOO_SOCKET_IFNAME is set."""
    try:
        answers = socket.getaddrinfo(os.fsencode(socket.gethostname()), None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(answer[4][0]) for answer in answers})
