"""Memory, disk space and kernel limits that a lab needs, compared with the machine."""

from __future__ import annotations

from dataclasses import dataclass

from ddp_play.bundle.summary import counted
from ddp_play.errors import DdpPlayError, HostNotReady

MIB = 1024 * 1024
# Measured: an idle host with its Docker daemon takes about 120 MiB; a bare one about 40.
_MEMORY_HOST_MIB = 130
_MEMORY_BARE_HOST_MIB = 60
_MEMORY_RESERVE_MIB = 256
# Logs, /var and a small rank image per host; a base image and its layers once.
_DISK_HOST_MIB = 300
_DISK_IMAGE_MIB = 1500
# Measured: systemd, dbus and dockerd of one host hold about 7 inotify instances, all of root.
_INOTIFY_PER_HOST = 10
_KEYS_PER_HOST = 60
_KEY_BYTES_PER_HOST = 2000


@dataclass(frozen=True)
class MachineResources:
    """Free memory and disk space of the engine's machine; None if unknown (remote engine)."""

    memory_free_mib: int | None
    disk_free_mib: int | None
    disk_path: str = "/var/lib/docker"


@dataclass(frozen=True)
class RankImageNeeds:
    """What the image of the ranks takes besides the hosts: why it cannot be had, and its size on each host and here."""

    problems: tuple[DdpPlayError, ...] = ()
    host_mib: int = 0
    here_mib: int = 0


NO_RANK_IMAGE = RankImageNeeds()


@dataclass(frozen=True)
class KernelLimit:
    """A sysctl, the least value that a lab needs, and the larger value to set if the present one is less."""

    name: str
    least: int
    target: int


def resource_problems(
    machine: MachineResources,
    *,
    num_new_hosts: int,
    engine: bool,
    image_cached: bool,
    rank_image: RankImageNeeds = NO_RANK_IMAGE,
) -> list[HostNotReady]:
    """Errors that say what is too small for the new hosts, one for memory and one for disk space."""
    if num_new_hosts == 0:
        return []
    found = []
    hosts = f"{counted(num_new_hosts, 'new host')} {'needs' if num_new_hosts == 1 else 'need'}"
    per_host = _MEMORY_HOST_MIB if engine else _MEMORY_BARE_HOST_MIB
    memory = _MEMORY_RESERVE_MIB + num_new_hosts * per_host
    if machine.memory_free_mib is not None and machine.memory_free_mib < memory:
        fits = max((machine.memory_free_mib - _MEMORY_RESERVE_MIB) // per_host, 0)
        found.append(
            HostNotReady(
                f"{hosts} about {memory} MiB of memory, {machine.memory_free_mib} MiB are available",
                hint=f"--hosts {fits} would fit" if fits else "free some memory first",
            )
        )
    per_host_mib = _DISK_HOST_MIB + rank_image.host_mib
    disk = num_new_hosts * per_host_mib + rank_image.here_mib + (0 if image_cached else _DISK_IMAGE_MIB)
    if machine.disk_free_mib is not None and machine.disk_free_mib < disk:
        found.append(
            HostNotReady(
                f"{hosts} about {disk} MiB of disk, {machine.disk_free_mib} MiB are free in {machine.disk_path}",
                hint="docker system df shows what can be removed",
            )
        )
    return found


def kernel_limits(num_hosts: int) -> tuple[KernelLimit, ...]:
    """Limits shared by all containers of the machine; `num_hosts` counts the hosts of every lab on it.

    With the usual 128 inotify instances systemd fails in about the 18th host.
    """
    return (
        _limit("fs.inotify.max_user_instances", 64 + num_hosts * _INOTIFY_PER_HOST, preferred=4096),
        _limit("kernel.keys.maxkeys", 100 + num_hosts * _KEYS_PER_HOST, preferred=10_000),
        _limit("kernel.keys.maxbytes", 10_000 + num_hosts * _KEY_BYTES_PER_HOST, preferred=1_000_000),
    )


def _limit(name: str, least: int, *, preferred: int) -> KernelLimit:
    return KernelLimit(name, least, max(least, preferred))
