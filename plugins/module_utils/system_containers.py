"""Running system containers of LXC, LXD, Incus, libvirt and systemd-nspawn, by the control groups of processes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, List

from ansible_collections.ddp.play.plugins.module_utils import other_containers

if TYPE_CHECKING:
    from pathlib import Path

# libvirt and machinectl register machines, QEMU's among them; LXC, LXD and Incus name the groups of their containers.
GROUPS = (
    re.compile(r"/machine\.slice/machine-(?!qemu)([^/]+)\.scope"),
    re.compile(r"/machine\.slice/systemd-nspawn@([^/]+)\.service"),
    re.compile(r"/lxc(?:\.payload\.|/)([^/]+)"),
)
ESCAPED = re.compile(r"\\x([0-9a-f]{2})")


def read(procfs: Path) -> List[str]:
    """Their names; not that of the host itself."""
    root = other_containers.own_groups(procfs / "1")
    found = set()
    for folder in other_containers.process_folders(procfs):
        for path in other_containers.groups(folder):
            inner = other_containers.inside(path, root)
            matches = (pattern.search(inner) for pattern in GROUPS)
            found |= {ESCAPED.sub(lambda code: chr(int(code[1], 16)), match[1]) for match in matches if match}
    return sorted(found)
