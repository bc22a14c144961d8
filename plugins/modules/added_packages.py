#!/usr/bin/python
"""List the packages of a host, and record later which ones a role's transactions have added."""

from __future__ import annotations

from typing import Set

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import host_record, installed_packages

DOCUMENTATION = r"""
module: added_packages
short_description: Record the packages that transactions of a role have added
description:
  - For transactions that M(ddp.play.recorded_packages) does not do, because they move packages between versions.
  - Without I(before), returns the installed packages, and records those of I(names) that are missing, in case that
    nobody gets to record what the transactions have added. If these are on the host later, they are the role's.
  - With I(before), adds the packages that are new since to the record of the role, from which
    M(ddp.play.recorded_packages) removes them with C(state=absent).
options:
  role:
    description: Name of the role.
    type: str
    required: true
  before:
    description: The packages that an earlier task returned.
    type: list
    elements: str
  names:
    description: Packages that the transactions are to install.
    type: list
    elements: str
    default: []
  record:
    description: The file of the record.
    type: path
    default: /etc/ddp-play/record.json
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Install | List the packages of the host
  ddp.play.added_packages:
    role: nvidia_driver
    names: [nvidia-driver-cuda]
  register: __nvidia_driver_before

- name: Install | Record the new packages
  ddp.play.added_packages:
    role: nvidia_driver
    before: "{{ __nvidia_driver_before.packages }}"
"""

RETURN = r"""
packages:
  description: Without I(before), all installed packages; with it, those that were recorded.
  returned: always
  type: list
  elements: str
"""


def settle(record: str, role: str, found: Set[str]) -> None:
    """Record planned packages that are on the host by now, and forget the others: no transaction goes on."""
    planned = host_record.load(record).get(role, {}).get(host_record.PLANNED, [])
    host_record.add_names(record, role, host_record.PACKAGES, [name for name in planned if name in found])
    host_record.forget_names(record, role, host_record.PLANNED, planned)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "before": {"type": "list", "elements": "str"},
            "names": {"type": "list", "elements": "str", "default": []},
            "record": {"type": "path", "default": host_record.RECORD},
        },
        supports_check_mode=True,
    )
    want = module.params
    found = installed_packages.read(module.run_command(installed_packages.query(), check_rc=True)[1])
    if not module.check_mode:
        settle(want["record"], want["role"], found)
    if want["before"] is None:
        if not module.check_mode:
            new = sorted(set(want["names"]) - found)
            host_record.add_names(want["record"], want["role"], host_record.PLANNED, new)
        module.exit_json(changed=False, packages=sorted(found))
    # an imported key is a package to rpm, which no package manager can remove
    added = sorted(found - {*want["before"], "gpg-pubkey"})
    if added and not module.check_mode:
        host_record.add_names(want["record"], want["role"], host_record.PACKAGES, added)
    module.exit_json(changed=bool(added) and not module.check_mode, packages=added)


if __name__ == "__main__":
    main()
