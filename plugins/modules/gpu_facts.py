#!/usr/bin/python
"""Facts of a host for the GPU roles: GPUs, driver, DKMS, packages, units, problems."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
short_description: GPUs, NVIDIA driver state and reboot need of a host
version_added: "0.1.0"
description:
  - Reads sysfs, procfs, the module on disk, DKMS, installed packages with their holds, and units.
  - Changes nothing; needs no package on the host.
options:
  sysfs:
    description: Where to read devices and modules.
    type: path
    default: /sys
  procfs:
    description: Where to read the loaded driver and the users of the GPUs.
    type: path
    default: /proc
  packages:
    description: Glob patterns of package names to report with version and hold.
    type: list
    elements: str
    default: []
  role:
    description:
      - Role whose record tells which packages it has added to the host, as C(recorded), and which it has put on hold,
        as C(recorded_holds).
    type: str
    default: ""
  exclude:
    description: Glob patterns of package names to exclude.
    type: list
    elements: str
    default: []
  units:
    description: systemd units to report.
    type: list
    elements: str
    default: []
  users:
    description: Report the processes that use a GPU, except daemons that monitor GPUs and our exporter.
    type: bool
    default: false
  smi:
    description: Run C(nvidia-smi -q -x).
    type: bool
    default: false
  cuda:
    description: Create a CUDA context, the only reliable test of the driver.
    type: bool
    default: false
  expect:
    description:
      - Wanted state, with any of version, flavour, packages, same_version, hold, dkms, loaded,
        gpus, units, fabric_manager, mig, foreign (a driver that the role has not installed).
      - Fills RV(ansible_facts.ddp_gpu.problems).
    type: dict
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Look at the GPUs
  ddp.play.gpu_facts:

- name: Judge the driver
  ddp.play.gpu_facts:
    packages: [nvidia-*]
    smi: true
    expect: {version: "580", flavour: open, hold: true, loaded: true}
"""

RETURN = r"""
ansible_facts:
  description: The facts, under C(ddp_gpu).
  returned: always
  type: dict
  contains:
    ddp_gpu:
      description:
        - gpus, flavours, nvswitches, nvlink5, driver, kernel, secure_boot, dkms, packages, recorded, recorded_holds,
          units, reboot, users, problems.
      type: dict
"""

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import gpu_reading  # noqa: E402


def main() -> None:
    """Return the facts. A driver or GPU that does not answer is a fact, not a failure of the module."""
    module = AnsibleModule(argument_spec=gpu_reading.ARGUMENTS, supports_check_mode=True)
    module.exit_json(changed=False, ansible_facts={"ddp_gpu": gpu_reading.gather(module.params)})


if __name__ == "__main__":
    main()
