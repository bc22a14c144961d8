"""Parsers of sysfs files and PCI configuration space for RDMA; pure functions over text and bytes."""

from __future__ import annotations

import fnmatch
import re
import struct
from typing import Any, Dict, List, Optional

ACS_CAPABILITY = 0x000D
SOURCE_VALIDATION = 0x0001  # lspci writes it SrcValid+


def parse_port(files: Dict[str, str]) -> Dict[str, Any]:
    """One ports/N folder: "4: ACTIVE", "5: LinkUp", "400 Gb/sec (4X NDR)", "InfiniBand"."""
    rate = re.match(r"[\d.]+", files.get("rate", ""))
    return {
        "state": files.get("state", "").partition(":")[2].strip(),
        "phys_state": files.get("phys_state", "").partition(":")[2].strip(),
        "link_layer": files.get("link_layer", ""),
        "rate_gbps": float(rate.group()) if rate else 0.0,
        "lid": int(files.get("lid", "") or "0", 0),
    }


def acs_control(config: Optional[bytes]) -> Optional[int]:
    """The ACS control register from configuration space; None without that capability."""
    offset = 0x100
    seen = set()
    while config and 0x100 <= offset <= len(config) - 8 and offset not in seen:
        seen.add(offset)
        (header,) = struct.unpack_from("<I", config, offset)
        if header & 0xFFFF == ACS_CAPABILITY:
            control: int = struct.unpack_from("<H", config, offset + 6)[0]
            return control
        offset = header >> 20
    return None


def port_problems(name: str, number: str, port: Dict[str, Any], min_rate_gbps: float) -> List[str]:
    """Why a port with a link cannot carry traffic at `min_rate_gbps` (10^9 bit/s), a sentence each."""
    where = f"{name} port {number}"
    if port["state"] != "ACTIVE":
        hint = " (no subnet manager answers)" if port["state"] == "INIT" else ""
        return [f"{where} is {port['state'] or 'unreadable'}, {port['phys_state']}{hint}"]
    if port["rate_gbps"] < min_rate_gbps:
        return [f"{where} runs at {port['rate_gbps']:g} Gb/s, wanted {min_rate_gbps:g}"]
    return []


def selected(devices: List[Dict[str, Any]], patterns: List[str]) -> List[Dict[str, Any]]:
    """Devices whose name matches one of the glob patterns; all devices without patterns."""
    return [d for d in devices if not patterns or any(fnmatch.fnmatchcase(d["name"], p) for p in patterns)]


def link_problems(devices: List[Dict[str, Any]], expect: Dict[str, Any]) -> List[str]:
    """Problems of the ports. A port that is DOWN has no cable, which is a problem only if too few ports are active."""
    found: List[str] = []
    down: List[str] = []
    num_active = 0
    for device in devices:
        for number, port in device["ports"].items():
            problem = port_problems(device["name"], number, port, expect.get("rate_gbps", 0))
            (down if port["state"] == "DOWN" else found).extend(problem)
            num_active += port["state"] == "ACTIVE"
    wanted = expect.get("active_ports", 0)
    if wanted and num_active < wanted:
        found.append(f"{num_active} RDMA ports are active, the inventory expects {wanted}: " + ", ".join(down or found))
    elif devices and not num_active and down:
        names = ", ".join(device["name"] for device in devices)
        found.append(f"no port of {names} is active: " + ", ".join(down))
    return found


def device_problems(facts: Dict[str, Any], expect: Dict[str, Any]) -> List[str]:
    """Problems of the devices that the patterns of `expect` select, and of their ports."""
    there, patterns = facts["devices"], expect.get("devices", [])
    if not there:
        return [f"{len(facts['hcas'])} HCAs on the PCI bus but no RDMA device: is mlx5_ib loaded?"]
    devices = selected(there, patterns)
    if not devices:
        return [f"no RDMA device matches {', '.join(patterns)}: the host has {', '.join(d['name'] for d in there)}"]
    return link_problems(devices, expect)


def problems(facts: Dict[str, Any], expect: Dict[str, Any]) -> List[str]:
    """Each problem in one sentence; empty if the host is in the state `expect`."""
    found: List[str] = []
    wanted, num_devices = expect.get("hcas", 0), len(selected(facts["devices"], expect.get("devices", [])))
    if wanted and num_devices != wanted:
        found.append(f"{num_devices} RDMA devices in sysfs, the inventory expects {wanted}")
    found += device_problems(facts, expect)
    addresses = facts["addresses"]
    for interface, address in expect.get("addresses", {}).items():
        if address not in addresses.get(interface, []):
            found.append(f"{interface} has {addresses.get(interface) or 'no address'}, wanted {address}")
    return found
