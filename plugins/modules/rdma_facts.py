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
    description: Where to read whether this is a virtual machine, and the users of the devices.
    type: path
    default: /proc
  users:
    description: Report the processes that have an RDMA device open, except daemons that monitor devices.
    type: bool
    default: false
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
      description: hcas, devices with ports, addresses, acs_bridges, virtual, users.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import rdma_reading  # noqa: E402


def main() -> None:
    """Return the facts. A device or port that is down is a fact, not a failure of the module."""
    module = AnsibleModule(argument_spec=rdma_reading.ARGUMENTS, supports_check_mode=True)
    module.exit_json(changed=False, ansible_facts={"ddp_rdma": rdma_reading.gather(module.params)})


if __name__ == "__main__":
    main()
