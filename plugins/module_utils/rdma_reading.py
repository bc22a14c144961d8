"""HCAs, RDMA devices with their ports and users, addresses and ACS of a host; changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

from ansible_collections.ddp.play.plugins.module_utils import infiniband, occupants, pci, reboot_occupants
from ansible_collections.ddp.play.plugins.module_utils.host import read, read_bytes, run

ARGUMENTS: Dict[str, Dict[str, Any]] = {
    "sysfs": {"type": "path", "default": "/sys"},
    "procfs": {"type": "path", "default": "/proc"},
    "users": {"type": "bool", "default": False},
}
PORT_FILES = ("state", "phys_state", "link_layer", "rate", "lid")


def devices(sysfs: Path) -> List[Dict[str, Any]]:
    """RDMA devices in sysfs: name, firmware, and by number the ports as infiniband.parse_port returns them."""
    found = []
    for folder in sorted((sysfs / "class/infiniband").glob("*")):
        ports = {
            port.name: infiniband.parse_port({name: read(port / name) for name in PORT_FILES})
            for port in sorted((folder / "ports").glob("*"))
        }
        found.append({"name": folder.name, "firmware": read(folder / "fw_ver"), "ports": ports})
    return found


def acs_bridges(sysfs: Path) -> List[str]:
    """Slots of PCI bridges that validate sources (ACS): they send GPUDirect traffic through the root complex."""
    found = []
    for folder in sorted((sysfs / "bus/pci/devices").glob("*")):
        control = infiniband.acs_control(read_bytes(folder / "config"))
        if control is not None and control & infiniband.SOURCE_VALIDATION:
            found.append(folder.name)
    return found


def addresses() -> Dict[str, List[str]]:
    """Addresses with prefix length by interface, from `ip -json address`; empty if ip fails."""
    rc, out, _ = run(["ip", "-json", "address"])
    links = json.loads(out) if rc == 0 and out else []
    return {link["ifname"]: [f"{a['local']}/{a['prefixlen']}" for a in link.get("addr_info", [])] for link in links}


def gather(params: Dict[str, Any]) -> Dict[str, Any]:
    """All facts that the module's parameters request, as `ddp_rdma` returns them."""
    sysfs, procfs = Path(params["sysfs"]), Path(params["procfs"])
    on_bus = pci.devices(sysfs)
    facts = {
        "num_pci_devices": len(on_bus),
        "hcas": [d.slot for d in on_bus if pci.is_hca(d)],
        "devices": devices(sysfs),
        "addresses": addresses(),
        "acs_bridges": acs_bridges(sysfs),
        "virtual": " hypervisor" in read(procfs / "cpuinfo"),
    }
    if params["users"]:
        facts["users"] = reboot_occupants.disturbed_users(procfs, reboot_occupants.RDMA, occupants.ENGINE_TIMEOUT_S)
    return facts
