"""Virtual machines and system containers of a host, which end when it reboots; nobody can be asked for all of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, List

from ansible_collections.ddp.play.plugins.module_utils import occupants, other_containers

if TYPE_CHECKING:
    from pathlib import Path

# An open virtual machine of KVM, whichever program runs it; without KVM the name of the program is all there is.
KVM = "anon_inode:kvm-vm"
EMULATORS = ("qemu-system-", "qemu-kvm")
# libvirt and machinectl register machines, QEMU's among them; LXC, LXD and Incus name the groups of their containers.
GROUPS = (
    re.compile(r"/machine\.slice/machine-(?!qemu)([^/]+)\.scope"),
    re.compile(r"/machine\.slice/systemd-nspawn@([^/]+)\.service"),
    re.compile(r"/lxc(?:\.payload\.|/)([^/]+)"),
)
ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


def virtual_machines(procfs: Path) -> List[str]:
    """Processes that run one, as NAME (pid PID)."""
    found = []
    for folder in other_containers.process_folders(procfs):
        name = other_containers.process_name(folder)
        if name.startswith(EMULATORS) or _has_machine(folder):
            found.append("%s (pid %s)" % (name, folder.name))
    return found


def _has_machine(folder: Path) -> bool:
    try:
        return any(str(fd.readlink()) == KVM for fd in (folder / "fd").iterdir())
    except OSError:  # it has ended, or only root may read it
        return False


def system_containers(procfs: Path) -> List[str]:
    """Names of running containers of LXC, LXD, Incus, libvirt and systemd-nspawn; not of the host itself."""
    root = other_containers.own_groups(procfs / "1")
    found = set()
    for folder in other_containers.process_folders(procfs):
        for path in other_containers.groups(folder):
            inner = other_containers.inside(path, root)
            matches = (pattern.search(inner) for pattern in GROUPS)
            found |= {ESCAPED.sub(lambda code: chr(int(code[1], 16)), match[1]) for match in matches if match}
    return sorted(found)


def reasons(procfs: Path) -> List[str]:
    """Why a reboot would end machines of others, a clause each."""
    kinds = (("virtual machines", virtual_machines(procfs)), ("system containers", system_containers(procfs)))
    return ["%s are running: %s" % (noun, occupants.shortened(names)) for noun, names in kinds if names]
