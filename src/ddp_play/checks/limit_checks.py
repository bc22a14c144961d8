"""Checks of limits and disks: what a rank of this login may open, lock, start and write. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import CheckedHost, Compared, Fleet, each, ok, same_everywhere
from ddp_play.checks.host_findings import LEAST_FREE_MIB, USUAL_FILES, USUAL_FREE_MIB

if TYPE_CHECKING:
    from collections.abc import Iterator

WARN, FAIL = Status.WARN, Status.FAIL
# A rank of torch has some 50 to 150 threads, and data loaders have as many each.
LEAST_PROCESSES, USUAL_PROCESSES = 128, 512
# Docker's own default, with which data loaders fail; ddp-play starts ranks with that of the host.
LEAST_SHM_MIB, USUAL_SHM_MIB = 64, 512
LEAST_PORTS = 1000
LEAST_FREE_FILES = 1000
FULL = 0.95
DISKS = {"space_state": "disk of runs", "space_tmp": "temporary disk", "space_shared": "shared disk"}
OF_RANKS = "limit of the login, which ranks inherit"


def limits(fleet: Fleet) -> Iterator[Finding]:
    """Limits of the kernel."""
    yield from of_ranks(fleet)
    if not fleet.terms.in_containers:
        yield from same_everywhere(fleet, MEMLOCK, lambda host: host.read("limits")["memlock"] or 0)
    yield from _settings(fleet)


def of_ranks(fleet: Fleet) -> Iterator[Finding]:
    """What ranks cannot do without. Those in containers have limits of their own instead of those of the login."""
    if not fleet.terms.in_containers:
        yield from each(fleet, "open files", lambda host: _files(host, fleet.terms.least_files))
        yield from each(fleet, "processes limit", _process_limit)
        yield from each(fleet, "pids limit", _pids)
        if fleet.terms.may_use_rdma:
            yield from each(fleet, "locked memory", _locked)
    if not fleet.terms.own_shm:
        yield from each(fleet, "shared memory", _shm)
    yield from each(fleet, "ephemeral ports", _ephemeral)


MEMLOCK = Compared(
    "locked memory", "registering memory for RDMA fails where it is lower", WARN, "ulimit -l",
    "raise memlock in /etc/security/limits.d to unlimited",
    shown=lambda value: f"{value} bytes" if value else "no limit", is_harmless=lambda value, _usual: value == 0,
)  # fmt: skip


def _settings(fleet: Fleet) -> Iterator[Finding]:
    """One value of each setting of the network; the range of ephemeral ports has a floor instead."""
    keys: set[str] = set()
    for host in fleet.reached:
        keys |= set(host.readings.get("settings", {}).get("value") or {"net.core.somaxconn"})
    for key in sorted(keys - {"net.ipv4.ip_local_port_range"}):
        rule = Compared(
            f"setting: {key}", "connections of this host behave differently", WARN, f"sysctl {key}",
            "set it as on the other hosts, for example with base_os_sysctl",
        )  # fmt: skip
        yield from same_everywhere(fleet, rule, lambda host, key=key: host.read("settings").get(key) or "not set")  # type: ignore[misc]


def _files(host: CheckedHost, least: int) -> Finding:
    most = host.read("limits")["nofile"]
    if most is None or most >= USUAL_FILES:
        return ok(f"at least {USUAL_FILES}")
    return Finding(
        "", FAIL if most < least else WARN, f"at most {most}", "connections to peers and data loaders need more",
        "raise nofile in /etc/security/limits.d", limit=f"{USUAL_FILES}; fails below {least}", source=OF_RANKS,
        look="ulimit -Hn",
    )  # fmt: skip


def _process_limit(host: CheckedHost) -> Finding:
    most = host.read("limits")["nproc"]
    if most is None or most >= USUAL_PROCESSES:
        return ok(f"at least {USUAL_PROCESSES}")
    return Finding(
        "", FAIL if most < LEAST_PROCESSES else WARN, f"at most {most}", "threads of ranks count too",
        "raise nproc in /etc/security/limits.d", limit=f"{USUAL_PROCESSES}; fails below {LEAST_PROCESSES}",
        source=OF_RANKS, look="ulimit -Hu",
    )  # fmt: skip


def _pids(host: CheckedHost) -> Finding:
    row = host.read("limits")["pids"]
    left = row["max"] - row["now"] if row else USUAL_PROCESSES
    if left >= USUAL_PROCESSES:
        return ok(f"at least {USUAL_PROCESSES} left")
    return Finding(
        "", FAIL if left < LEAST_PROCESSES else WARN, f"{row['now']} of {row['max']} in use",
        "threads of ranks count too", "raise the limit: docker update --pids-limit, TasksMax=",
        limit=f"{USUAL_PROCESSES} left; fails below {LEAST_PROCESSES}", source="control group of the login",
        look="cat /sys/fs/cgroup/pids.max /proc/self/cgroup",
    )  # fmt: skip


def _locked(host: CheckedHost) -> Finding | None:
    """With RDMA, memory for its buffers must be locked; without, hosts are compared only."""
    if not host.known.rdma:
        return None
    most = host.read("limits")["memlock"]
    if most is None:
        return ok("no limit")
    return Finding(
        "", FAIL, f"at most {most} bytes", "registering memory for RDMA fails", "set memlock to unlimited in limits.d",
        limit="no limit", source="RDMA devices are there", look="ulimit -l",
    )  # fmt: skip


def _shm(host: CheckedHost) -> Finding:
    row = host.read("space_shm")
    if row["size_mib"] >= USUAL_SHM_MIB and row["free_mib"] >= LEAST_SHM_MIB:
        return ok(f"at least {USUAL_SHM_MIB} MiB")
    status = FAIL if min(row["size_mib"], row["free_mib"]) < LEAST_SHM_MIB else WARN
    return Finding(
        "", status, f"{row['free_mib']} of {row['size_mib']} MiB free", "data loaders, gloo and NCCL use it",
        "mount -o remount,size=50% /dev/shm; remove files that nobody uses",
        limit=f"{USUAL_SHM_MIB} MiB; fails below {LEAST_SHM_MIB} MiB", source="ddp-play", look="df -m /dev/shm",
    )  # fmt: skip


def _ephemeral(host: CheckedHost) -> Finding:
    first, last = host.known.ephemeral_ports
    number = last - first + 1
    if number >= LEAST_PORTS:
        return ok(f"at least {LEAST_PORTS}")
    return Finding(
        "", FAIL, f"{number} ports ({first} to {last})", "each connection of a rank takes one",
        "sysctl -w net.ipv4.ip_local_port_range='32768 60999'", limit=str(LEAST_PORTS), source="ddp-play",
        look="sysctl net.ipv4.ip_local_port_range",
    )  # fmt: skip


def disks(fleet: Fleet) -> Iterator[Finding]:
    """Space, inodes, and whether files can be written."""
    yield from each(fleet, "state directory", _write)
    for name, check in DISKS.items():
        rows = [host for host in fleet.reached if name in host.readings]
        yield from each(Fleet(tuple(rows)), check, lambda host, name=name: _space(host, name))  # type: ignore[misc]


def _write(host: CheckedHost) -> Finding:
    row = host.read("write_state")
    if not row["problem"]:
        return ok("can be written")
    return Finding(
        "", FAIL, f"{row['path']}: {row['problem']}", "logs of ranks and the state of runs are written there",
        "mount it writable, make room, or set ddp_state_dir for this host", limit="a file can be written",
        source="a file written, synced and read", look=f"touch {row['path']}/x; findmnt -T {row['path']}",
    )  # fmt: skip


def _space(host: CheckedHost, name: str) -> Finding:
    row = host.read(name)
    grave = name != "space_tmp"
    value, worst = "", Status.OK
    if row["inodes"] and row["free_inodes"] < max(LEAST_FREE_FILES, (1 - FULL) * min(row["inodes"], 10**6)):
        value, worst = f"{row['free_inodes']} of {row['inodes']} inodes free", WARN
        worst = FAIL if row["free_inodes"] < LEAST_FREE_FILES else worst
    used = 1 - row["free_mib"] / max(1, row["size_mib"])
    if row["free_mib"] < USUAL_FREE_MIB or used > FULL:
        value, worst = f"{row['free_mib']} of {row['size_mib']} MiB free", max(worst, WARN, key=list(Status).index)
        worst = FAIL if row["free_mib"] < LEAST_FREE_MIB else worst
    if not value:
        return ok("enough space and inodes")
    return Finding(
        "", worst if grave else WARN, f"{row['path']}: {value}", "logs, sources and checkpoints need it",
        "make room there", source="ddp-play", look=f"df -m {row['path']}; df -i {row['path']}",
        limit=f"{USUAL_FREE_MIB} MiB and 5 % free; fails below {LEAST_FREE_MIB} MiB or {LEAST_FREE_FILES} inodes",
    )  # fmt: skip
