#!/usr/bin/python
"""Make a file system on an empty block device, or empty a device that carries one of ours; never anything else."""

from __future__ import annotations

import os
from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import block_devices, changes

DOCUMENTATION = r"""
module: scratch_filesystem
short_description: Make a file system on an empty block device
description:
  - C(present) makes a file system with the label if the device is empty, and changes nothing if it has it. Any other
    device is refused - one with a partition, a signature, a mount, a member of LVM or RAID, or data in its first MiB.
  - C(absent) removes the signature of a file system with this type and label that is not mounted, and empties its first
    MiB. Any other device stays as it is.
options:
  device:
    description: The block device.
    type: path
    required: true
  fstype:
    description: Type of the file system.
    type: str
    choices: [ext4, xfs]
    required: true
  label:
    description: Label of the file system, at most 12 characters; it tells ours from others.
    type: str
    required: true
  state:
    description: Make the file system or empty the device.
    type: str
    choices: [present, absent]
    default: present
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Configure | Make the file system
  ddp.play.scratch_filesystem:
    device: /dev/disk/by-id/nvme-eui.0025388b710116a1
    fstype: xfs
    label: ddp-8f14e45f
"""

RETURN = r"""
judged:
  description: What the device was before - C(ours), C(empty) or C(refused).
  returned: always
  type: str
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: always
  type: list
  elements: dict
"""


def read(module: AnsibleModule, device: str) -> Dict[str, Any]:
    """Answers of the commands that read a device."""
    answers = {}
    for name, argv in block_devices.commands(device).items():
        rc, out, _ = module.run_command(argv, environ_update={"LC_ALL": "C"})
        answers[name] = {"rc": rc, "stdout": out}
    return answers


def run_all(module: AnsibleModule, device: str, steps: List[List[str]]) -> None:
    """Run commands on a device that nobody has open exclusively, as a mount, LVM and RAID have theirs."""
    try:
        os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        module.fail_json(msg="%s is in use: %s" % (device, error.strerror), judged=block_devices.REFUSED)
    for argv in steps:
        module.run_command(argv, environ_update={"LC_ALL": "C"}, check_rc=True)


def main() -> None:
    """Judge the device, then make the file system or remove it."""
    module = AnsibleModule(
        argument_spec={
            "device": {"type": "path", "required": True},
            "fstype": {"type": "str", "choices": ["ext4", "xfs"], "required": True},
            "label": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
        },
        supports_check_mode=True,
    )
    device, fstype, label = (str(module.params[name]) for name in ("device", "fstype", "label"))
    answers = read(module, device)
    judged, reason = block_devices.judge(answers, fstype, label)
    rows = []
    if module.params["state"] == "present":
        if judged == block_devices.REFUSED:
            module.fail_json(msg="%s %s; nothing was changed" % (device, reason), judged=judged)
        steps = [["mkfs." + fstype, "-q", "-L", label, device]]
        if judged == block_devices.EMPTY:
            rows = [changes.change(changes.ADD, "%s file system on %s" % (fstype, device), changes.NEW)]
    else:
        steps = [["wipefs", "--all", device]]
        steps.append(["blkdiscard", "--zeroout", "--length", str(block_devices.HEAD_BYTES), device])
        if judged == block_devices.OURS and not block_devices.mounts(answers):
            rows = [
                changes.change(changes.REMOVE, "%s file system on %s with its data" % (fstype, device), changes.OURS)
            ]
    if rows and not module.check_mode:
        run_all(module, device, steps)
    module.exit_json(changed=bool(rows), judged=judged, ddp_changes=rows)


if __name__ == "__main__":
    main()
