#!/usr/bin/python
"""Install packages and record which are new, or remove those that a role installed."""

from __future__ import annotations

import re
import shutil
import time
from typing import Any, Dict, List, Set, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import changes, host_record

DOCUMENTATION = r"""
module: recorded_packages
short_description: Install packages with a record, and remove them by it
description:
  - C(present) records every package that the transaction adds to the host, dependencies too, before it installs them.
    With apt it refuses a transaction that would remove a package that is not in O(replaces). Held packages and edited
    configuration files stay.
  - C(absent) purges what the record has for this role, and installs again what it replaced. A package that something
    else on the host needs by now stays, and is removed with the packages of the next role that nothing else needs; what
    it replaced is installed then.
  - Not idempotent by itself for C(present). Name only missing packages.
  - In check mode, apt simulates the transaction with the package lists that the host has; nothing is downloaded. Where
    the lists do not know a package, and with dnf, the answer has only the names.
options:
  role:
    description: Name of the role.
    type: str
    required: true
  names:
    description: Packages to install. Unused with C(absent).
    type: list
    elements: str
    default: []
  replaces:
    description: Packages of the host that the transaction may remove, because the new ones do their work.
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

LOCKED = re.compile(r"Could not get lock|Unable to acquire the dpkg frontend lock|Unable to lock directory")
APT = [
    "apt-get",
    "--assume-yes",
    "--no-install-recommends",
    "--option=Dpkg::Options::=--force-confdef",
    "--option=Dpkg::Options::=--force-confold",
]
# Without these, a simulation writes apt's caches and a log.
UNCACHED = ["--option=Dir::Cache::pkgcache=", "--option=Dir::Cache::srcpkgcache=", "--option=Dir::Log::Planner="]
DNF = ["dnf", "--assumeyes", "--quiet"]
ENGLISH = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "LANGUAGE": "C"}
LEFT = "left"  # role of recorded packages that stayed when their own role was removed
PACKAGES = host_record.PACKAGES
REPLACED = host_record.REPLACED
RETRY_S = 2.0


def added(simulated: str) -> List[str]:
    """Packages that a simulated transaction of apt adds: `Inst NAME (VERSION ...)`; upgrades have `[OLD]`."""
    return re.findall(r"(?m)^Inst (\S+) \(", simulated)


def upgraded(simulated: str) -> List[str]:
    """Installed packages that a simulated transaction of apt brings to another version."""
    return re.findall(r"(?m)^Inst (\S+) \[", simulated)


def removed(simulated: str) -> Set[str]:
    """Packages that a simulated transaction of apt removes."""
    return {name.partition(":")[0] for name in re.findall(r"(?m)^(?:Remv|Purg) (\S+)", simulated)}


def complaints(text: str) -> str:
    """The errors and warnings of a package manager; the whole text if none is marked."""
    lines = [line for line in text.splitlines() if re.match(r"(?:E|W|Err|Error)\b", line)]
    return "\n".join(dict.fromkeys(lines)) or text.strip()


class Manager:
    """Calls of the host's package manager, repeated while another one holds the lock."""

    def __init__(self, module: AnsibleModule) -> None:
        """A deadline for the lock starts now."""
        self.module = module
        self.deadline = time.monotonic() + module.params["lock_timeout_s"]
        self.uses_apt = bool(shutil.which("apt-get"))

    def run(self, argv: List[str]) -> Tuple[int, str, str]:
        """Exit code, output and errors."""
        while True:
            rc, out, err = self.module.run_command(argv, environ_update=ENGLISH)
            if rc == 0 or not LOCKED.search(err) or time.monotonic() > self.deadline:
                return rc, out, err
            time.sleep(RETRY_S)

    def must(self, argv: List[str]) -> str:
        """Output of a call that must succeed."""
        rc, out, err = self.run(argv)
        if rc != 0:
            self.module.fail_json(msg="%s failed: %s" % (" ".join(argv), complaints(err or out)), packages=[], kept=[])
        return out

    def installed(self) -> Set[str]:
        """Names of all installed packages."""
        if self.uses_apt:
            rows = self.must(["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n"]).splitlines()
            # A package that was removed, and only left its configuration, is purged too.
            return {row.split()[0] for row in rows if row.split()[1] != "not-installed"}
        return set(self.must(["rpm", "--query", "--all", "--queryformat", "%{NAME}\n"]).split())

    def plan(self, names: List[str], replaces: List[str]) -> Tuple[List[str], List[str]]:
        """Packages that an installation adds, and those that it replaces; ends the module if it would remove others."""
        if not self.uses_apt:
            return names, []
        warnings = self.run(["apt-get", "update", "--quiet"])[2]
        rc, out, err = self.run([*APT, "--simulate", "install", *names])
        replaced = sorted(removed(out) & set(replaces))
        going = sorted(removed(out) - set(replaces))
        if rc != 0 or going:
            reason = complaints(err) if rc else "it would remove %s, which ddp-play did not install" % ", ".join(going)
            text = "nothing was installed: %s\n%s" % (reason, complaints(warnings) if rc else "")
            self.module.fail_json(msg="%s: %s" % (", ".join(names), text.strip()), packages=[], kept=[])
        return added(out), replaced

    def forecast(self, names: List[str], replaces: List[str]) -> List[Dict[str, str]]:
        """Rows for an installation by the package lists that the host has; only the names if those lack a package."""
        rc, out, _ = self.run([*APT, *UNCACHED, "--simulate", "install", *names]) if self.uses_apt else (1, "", "")
        going = sorted(removed(out) - set(replaces))
        if rc == 0 and going:
            text = "nothing will be installed: it would remove %s, which ddp-play did not install" % ", ".join(going)
            self.module.fail_json(msg="%s: %s" % (", ".join(names), text), packages=[], kept=[])
        if rc:
            return list(changes.package_changes(names, []))
        return list(changes.package_changes(added(out), sorted(removed(out)), upgraded(out)))

    def install(self, names: List[str]) -> None:
        """Install the packages."""
        self.must([*APT, "install", *names] if self.uses_apt else [*DNF, "install", *names])

    def needed(self, names: List[str]) -> List[str]:
        """Those of the names that another package needs."""
        if not names:
            return []
        if not self.uses_apt:
            return names if self.run(["rpm", "--erase", "--test", *names])[0] else []
        if not self.beyond(names, set(names)):
            return []
        return [name for name in names if self.beyond([name], set(names))]

    def beyond(self, names: List[str], ours: Set[str]) -> Set[str]:
        """What apt would remove with these packages beyond our own."""
        return removed(self.must([*APT, "--simulate", "purge", *names])) - ours

    def remove(self, names: List[str]) -> None:
        """Remove the packages with their configuration, and nothing else."""
        if self.uses_apt:
            self.must([*APT, "purge", *names])
        else:
            self.must([*DNF, "remove", "--setopt=clean_requirements_on_remove=False", *names])


def present(module: AnsibleModule, manager: Manager) -> Dict[str, Any]:
    """Record what will be new, then install it."""
    names, role, path = module.params["names"], module.params["role"], module.params["record"]
    if not names:
        return {"changed": False, "packages": [], "kept": [], "ddp_changes": []}
    if module.check_mode:
        return {
            "changed": True,
            "packages": names,
            "kept": [],
            "ddp_changes": manager.forecast(names, module.params["replaces"]),
        }
    before = manager.installed()
    new, replaced = manager.plan(names, module.params["replaces"])
    note(path, role, PACKAGES, new)
    note(path, role, REPLACED, replaced)
    manager.install(names)
    if not manager.uses_apt:
        new = sorted(manager.installed() - before)
        note(path, role, PACKAGES, new)
    rows = changes.package_changes(new, replaced)
    return {"changed": True, "packages": new, "kept": [], "ddp_changes": rows}


def note(path: str, role: str, kind: str, names: List[str]) -> None:
    """Add packages to a list in the record of a role."""
    if not names:
        return
    record = host_record.load(path)
    entries = record.get(role, {})
    entries = dict(entries, **{kind: sorted({*entries.get(kind, []), *names})})
    host_record.save(path, dict(record, **{role: entries}))


def absent(module: AnsibleModule, manager: Manager) -> Dict[str, Any]:
    """Remove what the record has for this role, and what earlier removals had to leave."""
    role, path = module.params["role"], module.params["record"]
    record = host_record.load(path)
    entries, earlier = dict(record.get(role, {})), record.get(LEFT, {})
    replaced = sorted({*entries.pop(REPLACED, []), *earlier.get(REPLACED, [])})
    recorded = {*entries.pop(PACKAGES, []), *earlier.get(PACKAGES, [])}
    if not recorded:
        return {"changed": False, "packages": [], "kept": [], "ddp_changes": []}
    going = sorted(recorded & manager.installed())
    kept = []  # type: List[str]
    while True:
        needed = manager.needed(going)
        if not needed:
            break
        kept += needed
        going = [name for name in going if name not in needed]
    if not module.check_mode:
        if going:
            manager.remove(going)
        if replaced and not kept:
            manager.install(replaced)
        left = {PACKAGES: sorted(kept), REPLACED: replaced} if kept else {}
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
