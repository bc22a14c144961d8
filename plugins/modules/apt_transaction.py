#!/usr/bin/python
"""Install packages with apt and remove those they replace, in one transaction after all downloads."""

from __future__ import annotations

from typing import Dict, List, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.ddp.play.plugins.module_utils import (
    changes,
    host_record,
    installed_packages,
    package_transactions,
)
from ansible_collections.ddp.play.plugins.module_utils.package_manager import APT, UNCACHED, Manager, complaints

DOCUMENTATION = r"""
module: apt_transaction
short_description: Replace packages so that either the old or the new ones are always installed
description:
  - Updates the package lists, simulates the transaction, downloads every package, and only then removes and
    installs in one transaction, from the cache. A failure before that leaves the packages of the host as they were.
  - Refuses a transaction that would remove a package that was not named.
  - Not idempotent by itself. Name only missing packages.
  - In check mode, the transaction is simulated with the package lists that the host has; nothing is downloaded. Where
    they do not know a package, for example before its repository is configured, the answer has only the names.
options:
  install:
    description: Packages to install, as C(name) or C(name=version); the version may end in an asterisk.
    type: list
    elements: str
    default: []
  remove:
    description: Installed packages to remove.
    type: list
    elements: str
    default: []
  source:
    description: File below sources.list.d whose repositories must answer. Others may fail without an error.
    type: path
  allow_downgrade:
    description: Accept a named version that is older than the installed one.
    type: bool
    default: false
  role:
    description:
      - Role in whose record the packages are noted that the transaction adds, dependencies too, and those that it
        removes, before it begins. M(ddp.play.recorded_packages) gives both back with C(state=absent).
    type: str
    default: ""
  record:
    description: The file of the record.
    type: path
    default: /etc/ddp-play/record.json
  lock_timeout_s:
    description: Seconds to wait for another package manager to finish.
    type: int
    default: 300
author:
  - the ddp-play authors
"""

EXAMPLES = r"""
- name: Install | Replace the distribution's engine
  ddp.play.apt_transaction:
    install: [docker-ce, docker-ce-cli, containerd.io]
    remove: [docker.io, containerd, runc]
    source: /etc/apt/sources.list.d/docker.sources
"""

RETURN = r"""
step:
  description: Where it ended - C(update), C(plan), C(download), C(install), or C(done).
  returned: always
  type: str
ddp_changes:
  description: Rows with C(kind) (add, change, restart, remove, reboot), C(what) and C(whose) (new, ours, theirs).
  returned: always
  type: list
  elements: dict
"""

Rows = List[Dict[str, str]]


def update_commands(source: Optional[str]) -> List[List[str]]:
    """First the update of the repository that must answer, alone; then of all lists, each of which may fail."""
    plain = ["apt-get", "update", "--quiet"]
    if not source:
        return [plain]
    alone = ["--option=Dir::Etc::sourcelist=" + source, "--option=Dir::Etc::sourceparts=-"]
    return [[*plain, *alone, "--option=APT::Get::List-Cleanup=0", "--error-on=any"], plain]


def install_command(install: List[str], remove: List[str], *extra: str, allow_downgrade: bool = False) -> List[str]:
    """The command line that installs and removes in one transaction; apt removes a name that ends in `-`."""
    options = ["--allow-change-held-packages", *(["--allow-downgrades"] if allow_downgrade else [])]
    return [*APT, "install", *options, *extra, *install, *[name + "-" for name in remove]]


def simulated_changes(simulated: str) -> Rows:
    """Rows for a simulated transaction."""
    found = package_transactions.read_apt(simulated)
    return list(changes.package_changes(found.added, found.removed, found.upgraded))


def fail(module: AnsibleModule, step: str, text: str, warnings: str = "") -> None:
    """End the module with apt's errors and the step, before anything was removed."""
    more = "\n".join(part for part in (complaints(text), warnings) if part)
    module.fail_json(msg="apt-get failed in step %s, nothing was removed: %s" % (step, more), step=step)


def forecast(module: AnsibleModule, manager: Manager) -> Rows:
    """Rows for the transaction by the package lists that the host has; the names where those lack a package."""
    want = module.params
    extra = ["--simulate", *UNCACHED]
    rc, out, _ = manager.run(
        install_command(want["install"], want["remove"], *extra, allow_downgrade=want["allow_downgrade"])
    )
    if rc != 0:
        return list(changes.package_changes([name.partition("=")[0] for name in want["install"]], want["remove"]))
    refuse_unasked(module, out)
    return simulated_changes(out)


def refuse_unasked(module: AnsibleModule, simulated: str) -> None:
    """End the module if the transaction would remove a package that was not named."""
    unasked = sorted(set(package_transactions.read_apt(simulated).removed) - set(module.params["remove"]))
    if unasked:
        fail(module, "plan", "it would also remove %s, which was not named" % ", ".join(unasked))


def update(module: AnsibleModule, manager: Manager) -> str:
    """Fail if the named repository does not answer; return the warnings about the others."""
    warnings = ""
    for argv in update_commands(module.params["source"]):
        rc, _, err = manager.run(argv)
        if rc != 0 and "--error-on=any" in argv:
            fail(module, "update", err)
        warnings = complaints(err) if err.strip() else ""
    return warnings


def forget_undone(module: AnsibleModule, manager: Manager, noted: Optional[Dict[str, List[str]]]) -> None:
    """Keep in the record only what a failed installation has done; all of it if dpkg does not say."""
    rc, out, _ = manager.run(installed_packages.DPKG)
    if noted is not None and rc == 0:
        host_record.forget_undone(module.params["record"], module.params["role"], noted, out)


def main() -> None:
    """Update, simulate, download, install: the first step that fails ends the module, which names it."""
    module = AnsibleModule(
        argument_spec={
            "install": {"type": "list", "elements": "str", "default": []},
            "remove": {"type": "list", "elements": "str", "default": []},
            "source": {"type": "path"},
            "allow_downgrade": {"type": "bool", "default": False},
            "role": {"type": "str", "default": ""},
            "record": {"type": "path", "default": host_record.RECORD},
            "lock_timeout_s": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    want, manager = module.params, Manager(module)
    if not (want["install"] or want["remove"]):
        module.exit_json(changed=False, step="done", ddp_changes=[])
    if module.check_mode:
        module.exit_json(changed=True, step="done", ddp_changes=forecast(module, manager))
    warnings = update(module, manager)
    rows: Rows = []
    planned, noted = package_transactions.read_apt(""), None
    names = (want["install"], want["remove"])
    # The last step finds all packages in the cache; with --no-download, apt fails for repositories with file: URIs.
    for step, extra in (("plan", ["--simulate"]), ("download", ["--download-only"]), ("install", [])):
        argv = install_command(*names, *extra, allow_downgrade=want["allow_downgrade"])
        rc, out, err = manager.run(argv)
        if rc == 0 and step == "plan":
            refuse_unasked(module, out)
            rows, planned = simulated_changes(out), package_transactions.read_apt(out)
        if rc == 0 and step == "download" and want["role"]:
            noted = host_record.note_transaction(want["record"], want["role"], planned.added, planned.removed)
        if rc != 0 and step == "install":
            forget_undone(module, manager, noted)
            module.fail_json(msg="apt-get failed while it installed: %s" % complaints(err), step=step)
        if rc != 0:
            fail(module, step, err, warnings)
    module.exit_json(changed=True, step="done", ddp_changes=rows)


if __name__ == "__main__":
    main()
