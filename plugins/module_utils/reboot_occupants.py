"""Occupants of a host that a reboot would disturb and a restart of a service would not.

Processes with an open GPU or RDMA device, a package transaction, steps of Slurm's jobs, NFS clients, virtual
machines, system containers.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
from pathlib import Path
from typing import Any, Dict, List, Sequence

from ansible_collections.ddp.play.plugins.module_utils import occupants, other_containers, system_containers

# Daemons that monitor or manage devices, by their names in /proc/PID/comm, which have 15 characters at most.
DAEMONS = ("nvidia-persiste", "nv-fabricmanage", "nv-hostengine", "ibacm")
GPU = re.compile(r"/dev/nvidia")
RDMA = re.compile(r"/dev/infiniband/uverbs")
KVM = re.compile(r"anon_inode:kvm-vm$")
EMULATORS = ("qemu-system-", "qemu-kvm")
# Files that package managers lock while they change packages: dpkg, apt, rpm (its two places).
PACKAGE_LOCKS = (
    *("/var/lib/dpkg/lock", "/var/lib/dpkg/lock-frontend"),
    *("/usr/lib/sysimage/rpm/.rpm.lock", "/var/lib/rpm/.rpm.lock"),
)
FLOCK = "hhqqi"  # struct flock: type, whence, start, length, pid
STEP = b"slurmstepd: ["  # as slurmstepd names the process of a step: slurmstepd: [812.batch]
NFS_CLIENTS = ["ss", "-Htn", "state", "established", "sport = :2049"]
NFS_SERVER = ["systemctl", "is-active", "--quiet", "nfs-server.service"]


def device_users(procfs: Path, device: "re.Pattern[str]") -> List[Dict[str, Any]]:
    """Processes with an open device file (pid, name), except daemons that monitor devices."""
    found = []
    for folder in procfs.glob("[0-9]*"):
        try:
            held = any(device.match(str(fd.readlink())) for fd in (folder / "fd").iterdir())
            name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            continue
        if held and not name.startswith(DAEMONS):
            found.append({"pid": int(folder.name), "name": name})
    return sorted(found, key=lambda row: int(row["pid"]))


def virtual_machines(procfs: Path) -> List[str]:
    """Processes that run one, as NAME (pid PID): with an open one of KVM, or by the name of the emulator."""
    pids = {row["pid"] for row in device_users(procfs, KVM)}
    folders = [(folder, other_containers.process_name(folder)) for folder in other_containers.process_folders(procfs)]
    return [
        "%s (pid %s)" % (name, folder.name)
        for folder, name in folders
        if int(folder.name) in pids or name.startswith(EMULATORS)
    ]


def disturbed_users(procfs: Path, device: "re.Pattern[str]", timeout_s: float) -> List[Dict[str, Any]]:
    """Those of device_users that are not in a container of the roles' own units, which start it again."""
    users = device_users(procfs, device)
    ours = occupants.our_containers(timeout_s) if users else []
    return [row for row in users if not is_in(procfs / str(row["pid"]), ours)]


def is_in(folder: Path, containers: Sequence[str]) -> bool:
    """Whether a process belongs to one of these containers, by the control groups that Docker names after their ids."""
    return any(container in path for path in other_containers.groups(folder) for container in containers)


def slurm_steps(procfs: Path) -> List[str]:
    """Steps of Slurm jobs, as JOB.STEP."""
    found = []
    for folder in procfs.glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(STEP):
            found.append(line[len(STEP) :].partition(b"]")[0].decode("ascii", "replace"))
    return sorted(found)


def lock_holder(path: str) -> int:
    """Pid of the process that holds a record lock on the file (of another pid namespace: -1); 0 if there is none."""
    try:
        with Path(path).open("rb") as file:
            asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            answer = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    except OSError:
        return 0
    return 0 if answer[0] == fcntl.F_UNLCK else int(answer[4]) or -1


def nfs_peers(rc: int, listing: str) -> List[str]:
    """Addresses of connected clients. `listing`: of `ss -Htn`, whose last column is the peer with its port."""
    if rc != 0:
        return ["unknown clients (ss: exit code %d)" % rc]
    return sorted({line.split()[-1].rpartition(":")[0] for line in listing.splitlines() if line.split()})


def nfs_clients(timeout_s: float) -> List[str]:
    """Addresses of clients that are connected to this host's NFS server."""
    if occupants.ask(NFS_SERVER, timeout_s)[0] != 0:
        return []
    return nfs_peers(*occupants.ask(NFS_CLIENTS, timeout_s)[:2])


def reasons(procfs: Path, timeout_s: float, *, gpus: bool = True) -> List[str]:
    """Why a reboot would disturb somebody, beyond `occupants.reasons`; each reason a clause with its subject.

    `gpus`: also users of GPUs.
    """
    machines = {"virtual machines": virtual_machines(procfs), "system containers": system_containers.read(procfs)}
    found = ["%s are running: %s" % (noun, occupants.shortened(names)) for noun, names in machines.items() if names]
    for noun, device in (("a GPU", GPU), ("an RDMA device", RDMA))[0 if gpus else 1 :]:
        users = ["%(name)s (pid %(pid)d)" % row for row in disturbed_users(procfs, device, timeout_s)]
        if users:
            found.append("processes use %s: %s" % (noun, occupants.shortened(users)))
    steps = slurm_steps(procfs)
    if steps:
        found.append("steps of Slurm jobs are running: %s" % occupants.shortened(steps))
    locked = ["%s (pid %d)" % (path, pid) for path, pid in ((path, lock_holder(path)) for path in PACKAGE_LOCKS) if pid]
    if locked:
        found.append("packages are being changed: %s is locked" % locked[0])
    clients = nfs_clients(timeout_s)
    if clients:
        found.append("NFS clients are connected: %s" % occupants.shortened(clients))
    return found


def read(timeout_s: float = occupants.ENGINE_TIMEOUT_S) -> List[str]:
    """Why this host should not reboot now; empty if nothing is disturbed."""
    busy: List[str] = occupants.read(timeout_s)["reasons"]
    return [*busy, *reasons(occupants.PROC, timeout_s)]
