#!/usr/bin/python
"""List the packages of a host, and record later which ones a role's transactions have added."""

from __future__ import annotations

import shutil
from typing import Set

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import host_record

DOCUMENTATION = r"""
module: added_packages
short_description: Record the packages that transactions of a role have added
description:
  - For transactions that M(ddp.play.recorded_packages) does not do, because they move packages between versions.
  - Without I(before), returns the installed packages and changes nothing.
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

DPKG = ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n"]
RPM = ["rpm", "--query", "--all", "--queryformat", "%{NAME} installed\n"]


def installed(module: AnsibleModule) -> Set[str]:
    """Names of all packages; also of those that were removed and left their configuration."""
    out = module.run_command(DPKG if shutil.which("dpkg-query") else RPM, check_rc=True)[1]
    return {line.split()[0] for line in out.splitlines() if line.split()[1] != "not-installed"}


def note(path: str, role: str, names: Set[str]) -> None:
    """Add packages to the record of the role."""
    record = host_record.load(path)
    entries = dict(record.get(role, {}))
    entries[host_record.PACKAGES] = sorted({*entries.get(host_record.PACKAGES, []), *names})
    host_record.save(path, dict(record, **{role: entries}))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "before": {"type": "list", "elements": "str"},
            "record": {"type": "path", "default": host_record.RECORD},
        },
        supports_check_mode=True,
    )
    found = installed(module)
    if module.params["before"] is None:
        module.exit_json(changed=False, packages=sorted(found))
    # an imported key is a package to rpm, which no package manager can remove
    added = {name for name in found - set(module.params["before"]) if name != "gpg-pubkey"}
    if added and not module.check_mode:
        note(module.params["record"], module.params["role"], added)
    module.exit_json(changed=bool(added) and not module.check_mode, packages=sorted(added))


if __name__ == "__main__":
    main()
