"""Calls of a host's package manager for the modules that install and remove packages."""

from __future__ import annotations

import re
import tempfile
import time
from typing import TYPE_CHECKING, Dict, List, Set, Tuple

from ansible_collections.ddp.play.plugins.module_utils import changes, installed_packages, package_transactions

if TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule
    from ansible_collections.ddp.play.plugins.module_utils.package_transactions import Transaction

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
# Of a package for several kernels there may be several versions; rpm refuses such a name otherwise.
DNF, ERASED = ["dnf", "--assumeyes", "--quiet"], ["rpm", "--erase", "--allmatches", "--test"]
# needrestart would restart services of the site after each transaction; Ubuntu's does so without asking.
UNDISTURBED = {"NEEDRESTART_SUSPEND": "1", "NEEDRESTART_MODE": "l"}
ENGLISH = {**UNDISTURBED, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C", "LANGUAGE": "C"}
RETRY_S = 2.0


def complaints(text: str) -> str:
    """The errors and warnings of a package manager; the whole text if none is marked."""
    lines = [line for line in text.splitlines() if re.match(r"(?:E|W|Err|Error)\b", line)]
    return "\n".join(dict.fromkeys(lines)) or text.strip()


def failure(argv: List[str], out: str, err: str) -> str:
    """What is said of a call that failed."""
    return "%s failed: %s" % (" ".join(argv), complaints(err or out))


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
            self.module.fail_json(msg=failure(argv, out, err), packages=[], kept=[])
        return out

    def listing(self) -> str:
        """All packages, as module_utils.installed_packages reads them."""
        return self.must(installed_packages.query())

    def installed(self) -> Set[str]:
        """Names of all installed packages."""
        return set(installed_packages.read(self.listing()))

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
        if self.uses_apt:
            return found
        # dnf also lists a package of which another version stays, such as kernel-devel: its name is the site's.
        there = self.installed()
        return found._replace(added=[name for name in found.added if name not in there])

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

    def install(self, names: List[str], replaces: List[str]) -> str:
        """Install the packages; why that failed, or empty."""
        argv = [*APT, "install", *names] if self.uses_apt else [*DNF, *erasing(replaces), "install", *names]
        rc, out, err = self.run(argv)
        return failure(argv, out, err) if rc != 0 else ""

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
