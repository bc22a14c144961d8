#!/usr/bin/python
"""Install packages and record which are new, or remove those that a role installed."""

from __future__ import annotations

from typing import Any, Dict, List

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import changes, host_record
from ansible_collections.ddp.play.plugins.module_utils.package_manager import Manager

DOCUMENTATION = r"""
module: recorded_packages
short_description: Install packages with a record, and remove them by it
description:
  - C(present) simulates the transaction first. It refuses one that would remove a package that is not in O(replaces),
    or downgrade any, and records every package that it adds to the host, dependencies too, before it installs them.
    Held packages and edited configuration files stay.
  - An installation that fails leaves in the record only what it has added.
  - C(absent) purges what the record has for this role, and installs again what it replaced, with a warning if no
    repository has it any more. A package that something
    else on the host needs by now stays, and is removed with the packages of the next role that nothing else needs; what
    it replaced is installed then.
  - Not idempotent by itself for C(present). Name only missing packages.
  - In check mode the transaction is simulated with the package lists that the host has; nothing is downloaded. Where
    the lists do not know a package, the answer has only the names.
options:
  role:
    description: Name of the role.
    type: str
    required: true
  names:
    description: Packages to install; with C(absent), packages of the role to remove besides the recorded ones.
    type: list
    elements: str
    default: []
  replaces:
    description: Packages of the host that the transaction may remove, because the new ones do their work.
    type: list
    elements: str
    default: []
  keep_data:
    description: Packages that C(absent) removes without a purge, because their purge deletes data.
    type: list
    elements: str
    default: []
  state:
    description: Install, or remove what was installed.
    type: str
    choices: [present, absent]
    default: present
  lock_timeout_s:
    description: Seconds to wait for another package manager to finish.
    type: int
    default: 300
  record:
    description: The file of the record.
    type: path
    default: /etc/ddp-play/record.json
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Install | Install the packages
  ddp.play.recorded_packages:
    role: base_os
    names: [chrony, numactl]

- name: Remove | Remove the packages that this role installed
  ddp.play.recorded_packages:
    role: base_os
    state: absent
"""

RETURN = r"""
packages:
  description: The packages that were, or in check mode would be, added or removed.
  returned: always
  type: list
  elements: str
kept:
  description: Recorded packages that stay, because another package needs them.
  returned: always
  type: list
  elements: str
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: always
  type: list
  elements: dict
"""

LEFT = "left"  # role of recorded packages that stayed when their own role was removed
PACKAGES = host_record.PACKAGES
REPLACED = host_record.REPLACED


def present(module: AnsibleModule, manager: Manager) -> Dict[str, Any]:
    """Record what will be new, then install it."""
    names, role, path = module.params["names"], module.params["role"], module.params["record"]
    if not names:
        return {"changed": False, "packages": [], "kept": [], "ddp_changes": []}
    if module.check_mode:
        rows = manager.forecast(names, module.params["replaces"])
        return {"changed": True, "packages": names, "kept": [], "ddp_changes": rows}
    found = manager.plan(names, module.params["replaces"])
    noted = host_record.note_transaction(path, role, found.added, found.removed)
    problem = manager.install(names, module.params["replaces"])
    if problem:
        host_record.forget_undone(path, role, noted, manager.listing())
        module.fail_json(msg=problem, packages=[], kept=[])
    rows = changes.package_changes(found.added, found.removed, found.upgraded)
    return {"changed": True, "packages": found.added, "kept": [], "ddp_changes": rows}


def absent(module: AnsibleModule, manager: Manager) -> Dict[str, Any]:
    """Remove what the record has for this role, and what earlier removals had to leave."""
    role, path = module.params["role"], module.params["record"]
    record = host_record.load(path)
    entries, earlier = dict(record.get(role, {})), record.get(LEFT, {})
    replaced = sorted({*entries.pop(REPLACED, []), *earlier.get(REPLACED, [])})
    own = {*entries.pop(PACKAGES, []), *entries.pop(host_record.PLANNED, [])}
    recorded = {*own, *earlier.get(PACKAGES, []), *module.params["names"]}
    if not recorded:
        return {"changed": False, "packages": [], "kept": [], "ddp_changes": []}
    going = sorted(recorded & manager.installed())
    kept: List[str] = []
    while True:
        needed = manager.needed(going)
        if not needed:
            break
        kept += needed
        going = [name for name in going if name not in needed]
    if not module.check_mode:
        if going:
            manager.remove(going, module.params["keep_data"])
        problem = manager.install(replaced, []) if replaced and not kept else ""
        if problem:
            module.warn("%s, which the removed packages had replaced: %s" % (", ".join(replaced), problem))
        # A later removal would purge them.
        later = sorted({*kept} - {*module.params["keep_data"]})
        left = {PACKAGES: later, REPLACED: replaced} if kept else {}
        left = {kind: names for kind, names in left.items() if names}
        host_record.save(path, dict(record, **{role: entries, LEFT: left}))
    rows = changes.package_changes(replaced if going and not kept else [], going, own=going)
    return {"changed": bool(going), "packages": going, "kept": sorted(kept), "ddp_changes": rows}


def main() -> None:
    """Install with a record, or remove by it."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "names": {"type": "list", "elements": "str", "default": []},
            "replaces": {"type": "list", "elements": "str", "default": []},
            "keep_data": {"type": "list", "elements": "str", "default": []},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "lock_timeout_s": {"type": "int", "default": 300},
            "record": {"type": "path", "default": host_record.RECORD},
        },
        supports_check_mode=True,
    )
    act = present if module.params["state"] == "present" else absent
    module.exit_json(**act(module, Manager(module)))


if __name__ == "__main__":
    main()
