#!/usr/bin/python
"""Install packages and record which are new, or remove those that a role installed."""

from __future__ import annotations

import re
import tempfile
import time
from typing import TYPE_CHECKING, Any, Dict, List, Set, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import (
    changes,
    host_record,
    installed_packages,
    package_transactions,
)

if TYPE_CHECKING:
    from ansible_collections.ddp.play.plugins.module_utils.package_transactions import Transaction

DOCUMENTATION = r"""
module: recorded_packages
short_description: Install packages with a record, and remove them by it
description:
  - C(present) simulates the transaction first. It refuses one that would remove a package that is not in O(replaces),
    or downgrade any, and records every package that it adds to the host, dependencies too, before it installs them.
    Held packages and edited configuration files stay.
  - C(absent) purges what the record has for this role, and installs again what it replaced. A package that something
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
DNF, ERASED = ["dnf", "--assumeyes", "--quiet"], ["rpm", "--erase", "--test"]
ENGLISH = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "LANGUAGE": "C"}
LEFT = "left"  # role of recorded packages that stayed when their own role was removed
PACKAGES = host_record.PACKAGES
REPLACED = host_record.REPLACED
RETRY_S = 2.0


def complaints(text: str) -> str:
    """The errors and warnings of a package manager; the whole text if none is marked."""
    lines = [line for line in text.splitlines() if re.match(r"(?:E|W|Err|Error)\b", line)]
    return "\n".join(dict.fromkeys(lines)) or text.strip()


def harm(found: Transaction, replaces: List[str]) -> str:
    """What a transaction would do to packages of others; empty if nothing."""
    removed = [name for name in found.removed if name not in replaces]
    if removed:
        return "it would remove %s, which ddp-play did not install" % ", ".join(removed)
    return "it would downgrade %s" % ", ".join(found.downgraded) if found.downgraded else ""


def erasing(replaces: List[str]) -> List[str]:
    """The option with which dnf may remove packages; apt needs none."""
    return ["--allowerasing"] if replaces else []


class Manager:
    """Calls of the host's package manager, repeated while another one holds the lock."""

    def __init__(self, module: AnsibleModule) -> None:
        """A deadline for the lock starts now."""
        self.module = module
        self.deadline = time.monotonic() + module.params["lock_timeout_s"]
        self.uses_apt = installed_packages.uses_apt()

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
        return set(installed_packages.read(self.must(installed_packages.query())))

    def simulate(self, names: List[str], replaces: List[str], *options: str) -> Tuple[str, Transaction]:
        """Why an installation is not possible (empty if it is), and what it would do."""
        way = [*APT, "--simulate"] if self.uses_apt else ["dnf", "--assumeno", *erasing(replaces)]
        rc, out, err = self.run([*way, *options, "install", *names])
        # dnf ends with exit code 1 also when only its question was answered with no.
        failed = rc != 0 and (self.uses_apt or "\nTransaction Summary\n" not in out)
        problem = (complaints(err or out) or "exit code %d" % rc) if failed else ""
        return problem, package_transactions.read_apt(out) if self.uses_apt else package_transactions.read_dnf(out)

    def refuse(self, names: List[str], reason: str, more: str = "") -> None:
        """End the module before anything was changed."""
        ever = "will be" if self.module.check_mode else "was"
        text = "%s: nothing %s installed: %s\n%s" % (", ".join(names), ever, reason, more)
        self.module.fail_json(msg=text.strip(), packages=[], kept=[])

    def plan(self, names: List[str], replaces: List[str]) -> Transaction:
        """What an installation does; ends the module if that is not possible, or harms packages of others."""
        warnings = self.run(["apt-get", "update", "--quiet"])[2] if self.uses_apt else ""
        problem, found = self.simulate(names, replaces)
        if problem or harm(found, replaces):
            self.refuse(names, problem or harm(found, replaces), complaints(warnings) if problem else "")
        return found

    def forecast(self, names: List[str], replaces: List[str]) -> List[Dict[str, str]]:
        """Rows for an installation by the package lists that the host has; only the names if those lack a package."""
        with tempfile.TemporaryDirectory(prefix="ddp-play-") as scratch:
            quietly = UNCACHED if self.uses_apt else ["--cacheonly", "--setopt=logdir=" + scratch]
            problem, found = self.simulate(names, replaces, *quietly)
        if problem:
            return list(changes.package_changes(names, []))
        if harm(found, replaces):
            self.refuse(names, harm(found, replaces))
        return list(changes.package_changes(found.added, found.removed, found.upgraded))

    def install(self, names: List[str], replaces: List[str]) -> None:
        """Install the packages."""
        self.must([*APT, "install", *names] if self.uses_apt else [*DNF, *erasing(replaces), "install", *names])

    def needed(self, names: List[str]) -> List[str]:
        """Those of the names that another package needs."""
        if not names:
            return []
        if not self.uses_apt:
            return list(package_transactions.not_erased(names, lambda some: self.run([*ERASED, *some])[0] == 0))
        if not self.beyond(names, set(names)):
            return []
        return [name for name in names if self.beyond([name], set(names))]

    def beyond(self, names: List[str], ours: Set[str]) -> Set[str]:
        """What apt would remove with these packages beyond our own."""
        # The roles release their holds first, which check mode only announces.
        held = ["--allow-change-held-packages"] if self.module.check_mode else []
        out = self.must([*APT, *held, "--simulate", "purge", *names])
        return set(package_transactions.read_apt(out).removed) - ours

    def remove(self, names: List[str], keep_data: List[str]) -> None:
        """Remove the packages, with their configuration unless they are among the second ones, and nothing else."""
        if not self.uses_apt:
            self.must([*DNF, "remove", "--setopt=clean_requirements_on_remove=False", *names])
            return
        for word in ("remove", "purge"):
            some = [name for name in names if (name in keep_data) == (word == "remove")]
            if some:
                self.must([*APT, word, *some])


def present(module: AnsibleModule, manager: Manager) -> Dict[str, Any]:
    """Record what will be new, then install it."""
    names, role, path = module.params["names"], module.params["role"], module.params["record"]
    if not names:
        return {"changed": False, "packages": [], "kept": [], "ddp_changes": []}
    if module.check_mode:
        rows = manager.forecast(names, module.params["replaces"])
        return {"changed": True, "packages": names, "kept": [], "ddp_changes": rows}
    found = manager.plan(names, module.params["replaces"])
    host_record.add_names(path, role, PACKAGES, found.added)
    host_record.add_names(path, role, REPLACED, found.removed)
    manager.install(names, module.params["replaces"])
    rows = changes.package_changes(found.added, found.removed, found.upgraded)
    return {"changed": True, "packages": found.added, "kept": [], "ddp_changes": rows}


def absent(module: AnsibleModule, manager: Manager) -> Dict[str, Any]:
    """Remove what the record has for this role, and what earlier removals had to leave."""
    role, path = module.params["role"], module.params["record"]
    record = host_record.load(path)
    entries, earlier = dict(record.get(role, {})), record.get(LEFT, {})
    replaced = sorted({*entries.pop(REPLACED, []), *earlier.get(REPLACED, [])})
    recorded = {*entries.pop(PACKAGES, []), *earlier.get(PACKAGES, []), *module.params["names"]}
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
            manager.remove(going, module.params["keep_data"])
        if replaced and not kept:
            manager.install(replaced, [])
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
