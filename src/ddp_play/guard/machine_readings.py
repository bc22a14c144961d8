"""Readings of the machine for `ddp-play check`: CPUs, memory, control groups, processes, software, pending reboot.

Every function takes the root of the file system as an argument, for tests.
"""

from __future__ import annotations

import glob
import os
import resource
import sys
import time
from typing import Any, Dict, List, Tuple

from .bounded_reading import NotReadableHere
from .processes import TICKS_PER_S

# Looks at processes that seem to hang, and their age: a younger one cannot have hung for long.
LOOK_AGAIN_S, MORE_LOOKS, LEAST_AGE_S = 1.0, 4, 10.0


def text(path: str) -> str:
    """Content of a small file without surrounding space; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20).strip()
    except OSError:
        return ""


def cpu(root: str = "") -> Dict[str, Any]:
    """Shape of the CPUs, and how many of them this user's processes may use."""
    rows = [block for block in text(root + "/proc/cpuinfo").split("\n\n") if block.strip()]
    fields = [dict(_pair(line) for line in row.splitlines()) for row in rows]
    sockets = {row.get("physical id", "0") for row in fields}
    cores = {(row.get("physical id", "0"), row.get("core id", str(at))) for at, row in enumerate(fields)}
    return {
        "model": next((row["model name"] for row in fields if "model name" in row), os.uname().machine),
        "sockets": len(sockets),
        "cores": len(cores),
        "threads": len(fields),
        "numa_nodes": len(glob.glob(root + "/sys/devices/system/node/node[0-9]*")),
        "usable": len(os.sched_getaffinity(0)),
    }


def _pair(line: str) -> Tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


def memory(root: str = "") -> Dict[str, Any]:
    """Memory of the machine in MiB, what of it is available, and the limit of the control group (None: no limit)."""
    rows = dict(_pair(line) for line in text(root + "/proc/meminfo").splitlines())
    total, available = (int(rows[name].split()[0]) // 1024 for name in ("MemTotal", "MemAvailable"))
    limits = [int(value) >> 20 for value in _group_values("memory", ("memory.max", "memory.limit_in_bytes"), root)]
    limit = min(limits, default=total)
    return {"total_mib": total, "available_mib": available, "limit_mib": limit if limit < total else None}


def cpu_quota(root: str = "") -> Dict[str, Any]:
    """CPUs that the control groups of this process allow (None: no quota), and how often they have held it back."""
    allowed: List[float] = []
    for directory in group_directories("cpu", root):
        quota, _, period = text(directory + "/cpu.max").partition(" ")
        if not quota:
            quota, period = (text(directory + "/cpu.cfs_%s_us" % name) for name in ("quota", "period"))
        if quota.isdigit() and period.isdigit() and int(period):
            allowed.append(int(quota) / int(period))
    stats = [dict(line.split()[:2] for line in text(path + "/cpu.stat").splitlines() if len(line.split()) > 1)
             for path in group_directories("cpu", root)]  # fmt: skip
    throttled = max((int(row.get("nr_throttled", 0)) for row in stats), default=0)
    return {"cpus": round(min(allowed), 2) if allowed else None, "times_throttled": throttled}


def group_directories(controller: str, root: str = "") -> List[str]:
    """Directories of this process's control group and of those above it, for a controller (cgroup 1 or 2)."""
    found = []
    for line in text(root + "/proc/self/cgroup").splitlines():
        number, controllers, path = (line.split(":", 2) + ["", ""])[:3]
        if controller in controllers.split(","):
            names = [controllers, controller]
        elif number == "0" and not controllers:
            names = [""]
        else:
            continue
        for name in names:
            base = os.path.join(root + "/sys/fs/cgroup", name)
            parts = path.strip("/").split("/") if path.strip("/") else []
            found += [os.path.join(base, *parts[:depth]) for depth in range(len(parts), -1, -1)]
    return [path for path in dict.fromkeys(found) if os.path.isdir(path)]


def _group_values(controller: str, names: Tuple[str, ...], root: str) -> List[str]:
    texts = (text(os.path.join(path, name)) for path in group_directories(controller, root) for name in names)
    return [value for value in texts if value.isdigit()]


def governor(root: str = "") -> Dict[str, Any]:
    """Frequency governors of the CPUs in use, the lowest of their clock limits, and the clock source."""
    cpus = root + "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/"
    paths, limits_khz = glob.glob(cpus + "scaling_governor"), glob.glob(cpus + "scaling_max_freq")
    slowest = min((int(value) for path in limits_khz if (value := text(path)).isdigit()), default=0)
    clock = text(root + "/sys/devices/system/clocksource/clocksource0/current_clocksource")
    return {"governors": sorted({text(path) for path in paths}), "clocksource": clock, "max_mhz": slowest // 1000}


def limits(root: str = "") -> Dict[str, Any]:
    """Limits that a rank inherits from this login; None is no limit. A guard of root has those of its unit."""
    found = {}
    for name in ("nofile", "memlock", "nproc"):
        hard = resource.getrlimit(getattr(resource, "RLIMIT_" + name.upper()))[1]
        found[name] = None if hard == resource.RLIM_INFINITY else hard
    unit = os.geteuid() == 0 and os.path.isdir(root + "/run/systemd/system")
    pids = []
    for path in group_directories("pids", root):
        most, now = text(path + "/pids.max"), text(path + "/pids.current")
        if most.isdigit():
            pids.append({"max": int(most), "now": int(now or 0)})
    if unit:
        found["memlock"] = None  # guard_start sets it
    tightest = min(pids, key=lambda row: row["max"] - row["now"], default=None)
    return {**found, "pids": tightest, "of": "unit" if unit else "login"}


def settings(root: str = "") -> Dict[str, str]:
    """Settings of the kernel that decide how its network behaves."""
    names = ("net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_rmem",
             "net.ipv4.tcp_wmem", "net.core.rmem_max", "net.core.wmem_max", "net.core.somaxconn",
             "net.ipv4.tcp_mtu_probing")  # fmt: skip
    found = {name: text("%s/proc/sys/%s" % (root, name.replace(".", "/"))) for name in names}
    return {name: " ".join(value.split()) for name, value in found.items() if value}


def processes(root: str = "", pause_s: float = LOOK_AGAIN_S) -> List[Dict[str, Any]]:
    """Processes that hang in the kernel (D) or were not reaped (Z), in all looks, without a step of the CPU between.

    Only where one is found the first time, and is old enough to count, there are more looks. A busy host needs seconds
    to reap one that has just ended: `sshd` waits for the end of its session first.
    """
    stayed = {key: row for key, row in _stuck(root).items() if _age_s(root, key) >= LEAST_AGE_S}
    for _ in range(MORE_LOOKS):
        if not stayed:
            break
        time.sleep(pause_s)
        again = _stuck(root)
        stayed = {key: row for key, row in stayed.items() if again.get(key) == row}
    return [{**row, "age_s": int(_age_s(root, key))} for key, row in sorted(stayed.items())]


def _age_s(root: str, key: Tuple[int, int]) -> float:
    return _uptime_s(root) - key[1] / TICKS_PER_S


def _uptime_s(root: str) -> float:
    return float(text(root + "/proc/uptime").split()[0])


def _stuck(root: str) -> Dict[Tuple[int, int], Dict[str, Any]]:
    found = {}
    for name in os.listdir(root + "/proc"):
        line = text("%s/proc/%s/stat" % (root, name)) if name.isdigit() else ""
        if not line:
            continue
        fields = line[line.rindex(")") + 2 :].split()
        if fields[0] not in ("D", "Z"):
            continue
        status = text("%s/proc/%s/status" % (root, name)).splitlines()
        found[int(name), int(fields[19])] = {
            "pid": int(name), "state": fields[0], "parent": int(fields[1]),
            "name": line[line.index("(") + 1 : line.rindex(")")],
            "switches": [row.split()[-1] for row in status if "ctxt_switches" in row],
        }  # fmt: skip
    return found


def software(root: str = "") -> Dict[str, str]:
    """Versions of what has to be the same on all hosts; those that a host lacks are left out."""
    driver = text(root + "/proc/driver/nvidia/version").split("\n")[0]
    words = [word for word in driver.split() if word[:1].isdigit() and "." in word]
    firmware = {text(path) for path in glob.glob(root + "/sys/class/infiniband/*/fw_ver")}
    found = {
        "os": _os_name(root),
        "kernel": os.uname().release,
        "architecture": os.uname().machine,
        "python": sys.version.split()[0],
        "libc": (os.confstr("CS_GNU_LIBC_VERSION") or "") if "CS_GNU_LIBC_VERSION" in os.confstr_names else "",
        "nvidia driver": words[0] if words else "",
        "ofed": text(root + "/sys/module/mlx5_core/version"),
        "rdma firmware": ", ".join(sorted(firmware)),
    }
    return {name: value for name, value in found.items() if value}


def _os_name(root: str) -> str:
    for line in text(root + "/etc/os-release").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return ""


def reboot_pending(root: str = "") -> List[str]:
    """Packages that wait for a reboot, as Debian and Ubuntu record them."""
    if not os.path.exists(root + "/run/reboot-required"):
        return []
    return text(root + "/run/reboot-required.pkgs").split() or ["unknown"]


def memory_errors(root: str = "") -> Dict[str, int]:
    """Corrected and uncorrected errors of the memory since boot."""
    paths = glob.glob(root + "/sys/devices/system/edac/mc/mc*")
    if not paths:
        raise NotReadableHere("the kernel counts no memory errors here (EDAC)")
    return {name: sum(int(text("%s/%s_count" % (path, name)) or 0) for path in paths) for name in ("ue", "ce")}
