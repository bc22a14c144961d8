"""Host facts, collected in one execution: what the controller reads as HostFacts."""

from __future__ import annotations

import grp
import os
import pwd
import resource
import socket
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from . import (
    apptainer_facts,
    docker_socket,
    gpus,
    host_drain,
    interfaces,
    leftovers,
    numa_facts,
    programs,
    rank_python,
    state_directory,
)
from .answer_limit import AnswerLimit
from .kept_facts import KeptFacts


def collect(wanted: Dict[str, Any], limit: Optional[AnswerLimit] = None) -> Dict[str, Any]:
    """All facts as a JSON object; `wanted` selects what is examined: engine, image, apptainer, shared_dir, python.

    `user`: uid:gid of the ranks, if it is not that of the login.
    """
    during = (limit or AnswerLimit("facts")).during
    gpu_rows, gpu_problem = during("the GPUs (nvidia-smi)", gpus.gpus)
    state = during("the choice of a state directory", state_directory.choose)
    machine = _machine()
    user = during("the user and the groups of the login", _user)
    return {
        "hostname": socket.gethostname(),
        "machine": machine,
        **_system(),
        "user": user,
        "cpus": len(os.sched_getaffinity(0)),
        "memory_mib": _memory_mib(),
        "disk_free_mib": during("the state directory %s" % state.path, _disk_free_mib, Path(state.path)),
        "state_dir": {"path": state.path, "fstype": state.mount.kind, "reason": state.reason},
        "nofile_hard": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "clock": time.time(),
        "systemd": Path("/run/systemd/system").is_dir(),
        "resolves_to": during("the address of the host's own name", interfaces.name_resolves_to),
        "interfaces": during("the network interfaces", interfaces.interfaces),
        "rdma": interfaces.rdma_ports(),
        "gpus": gpu_rows,
        "gpu_problem": gpu_problem,
        "numa": {"nodes": numa_facts.nodes(), "numactl": bool(programs.which("numactl"))},
        "nccl_conf": Path("/etc/nccl.conf").is_file(),
        "ephemeral_ports": _ephemeral_ports(),
        "engine": during("the container engine", _engine, wanted.get("image")) if wanted.get("engine") else None,
        "apptainer": during("Apptainer and the image", apptainer_facts.facts, wanted, user),
        "shared": during("the shared directory %s" % wanted.get("shared_dir"), _shared, wanted.get("shared_dir")),
        "rank_python": during("the ranks' Python", rank_python.facts, wanted, user, KeptFacts(state.path, machine)),
        "drained": host_drain.problem(),
        "quarantine": _quarantine(),
        "runs": during("the runs in the state directory %s" % state.path, leftovers.runs),
    }


def _quarantine() -> Optional[Dict[str, Any]]:
    found = host_drain.quarantine()
    return found._asdict() if found is not None else None


def _machine() -> str:
    """Boot id and network namespace: equal for two inventory names of the same machine."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    try:
        return boot + "/" + os.readlink("/proc/self/ns/net")
    except OSError:
        return boot


def _system() -> Dict[str, str]:
    """What the host runs, and what runs this program."""
    python = {"python": sys.executable, "python_version": sys.version.split()[0]}
    return {"os": _os_name(), "kernel": os.uname().release, **python}


def _os_name() -> str:
    for line in Path("/etc/os-release").read_text().splitlines() if Path("/etc/os-release").exists() else []:
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "%s %s" % (os.uname().sysname, os.uname().release)


def _user() -> Dict[str, Any]:
    uid = os.geteuid()
    try:
        entry = pwd.getpwuid(uid)
        name, home = entry.pw_name, entry.pw_dir
    except KeyError:
        name, home = str(uid), "/"
    groups = {}
    for gid in os.getgroups():
        try:
            groups[grp.getgrgid(gid).gr_name] = gid
        except KeyError:
            groups[str(gid)] = gid
    sudo_uid = os.environ.get("SUDO_UID")
    return {
        "name": name,
        "home": home,
        "uid": uid,
        "gid": os.getegid(),
        "groups": groups,
        # With become, ranks still run as the user who logged in, so that files belong to that user.
        "login_uid": int(sudo_uid) if sudo_uid and sudo_uid.isdigit() else uid,
        "login_gid": int(os.environ.get("SUDO_GID") or os.getegid()),
        "login_name": os.environ.get("SUDO_USER") or name,
    }


def _memory_mib() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // (1024 * 1024)


def _disk_free_mib(path: Path) -> int:
    while not path.exists():
        path = path.parent
    found = os.statvfs(str(path))
    return found.f_bavail * found.f_frsize // (1024 * 1024)


def _ephemeral_ports() -> List[int]:
    try:
        return [int(n) for n in Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()]
    except (OSError, ValueError):
        return [32768, 60999]


def _engine(reference: Optional[str]) -> Dict[str, Any]:
    facts: Dict[str, Any] = {"version": "", "problem": "", "cli": bool(programs.which("docker")), "image": None}
    try:
        facts["version"] = docker_socket.version().get("Version", "")
        document = docker_socket.image(reference) if reference else None
    except docker_socket.EngineError as error:
        facts["problem"] = str(error)
        facts["permission"] = error.status == -1
        return facts
    if document:
        config = document.get("Config") or {}
        facts["image"] = {
            "id": document.get("Id", ""),
            "digests": document.get("RepoDigests") or [],
            "entrypoint": config.get("Entrypoint") or [],
            "architecture": document.get("Architecture", ""),
            "torch": _torch_version(config.get("Env") or []),
        }
    return facts


def _torch_version(env: List[str]) -> str:
    """Version of torch in an image, from a variable that the images of PyTorch and NVIDIA set; empty if unknown."""
    return next((value for name, _, value in (row.partition("=") for row in env) if name == "PYTORCH_VERSION"), "")


def _shared(path: Optional[str]) -> Optional[Dict[str, Any]]:
    """Whether the shared directory exists and this user can write to it, tried by writing a file."""
    if not path:
        return None
    facts: Dict[str, Any] = {"path": path, "exists": os.path.isdir(path), "writable": False, "problem": ""}
    if not facts["exists"]:
        facts["problem"] = "does not exist"
        return facts
    facts["fstype"] = state_directory.mount_of(path).kind
    import tempfile

    try:
        with tempfile.NamedTemporaryFile(prefix=".ddp-play-", dir=path) as probe:
            probe.write(b"x")
            probe.flush()
        facts["writable"] = True
    except OSError as error:
        facts["problem"] = error.strerror or str(error)
        facts["permission"] = isinstance(error, PermissionError)
    return facts
