#!/usr/bin/python
"""HCAs, RDMA devices with their ports, IPoIB addresses and ACS of a host, in one execution."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_facts
short_description: RDMA devices and obstacles to GPUDirect
version_added: "0.1.0"
description:
  - Reads sysfs and PCI configuration space. Changes nothing; needs no package on the host.
options:
  sysfs:
    description: Where to read devices.
    type: path
    default: /sys
  procfs:
    description: Where to read whether this is a virtual machine.
    type: path
    default: /proc
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Look at RDMA
  ddp.play.rdma_facts:
"""

RETURN = r"""
ansible_facts:
  description: The facts, under C(ddp_rdma).
  returned: always
  type: dict
  contains:
    ddp_rdma:
      description: hcas, devices with ports, addresses, acs_bridges, virtual.
      type: dict
"""

import json  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Dict, List  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import infiniband, pci  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils.host import read, read_bytes, run  # noqa: E402

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
    sysfs = Path(params["sysfs"])
    on_bus = pci.devices(sysfs)
    return {
        "num_pci_devices": len(on_bus),
        "hcas": [d.slot for d in on_bus if pci.is_hca(d)],
        "devices": devices(sysfs),
        "addresses": addresses(),
        "acs_bridges": acs_bridges(sysfs),
        "virtual": " hypervisor" in read(Path(params["procfs"]) / "cpuinfo"),
    }


def main() -> None:
    """Return the facts. A device or port that is down is a fact, not a failure of the module."""
    module = AnsibleModule(
        argument_spec={
            "sysfs": {"type": "path", "default": "/sys"},
            "procfs": {"type": "path", "default": "/proc"},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, ansible_facts={"ddp_rdma": gather(module.params)})


if __name__ == "__main__":
    main()
