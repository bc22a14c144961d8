"""Memory that is available to a rank."""

from pathlib import Path

import torch

# limit and usage under cgroup v2 and v1, as a container sees them
CGROUP = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_bytes(device: torch.device) -> int:
    """Free bytes of a GPU; for the CPU the available bytes of the host or of the container, whichever is less."""
    if device.type == "cuda":
        free: int = torch.cuda.mem_get_info(device)[0]
        return free
    found = [host_available(Path("/proc/meminfo").read_text(encoding="ascii"))]
    for limit, usage in CGROUP:
        left = cgroup_left(Path(limit), Path(usage))
        if left is not None:
            found.append(left)
    return min(found)


def host_available(meminfo: str) -> int:
    """MemAvailable of /proc/meminfo in bytes; ValueError if it is missing."""
    for entry in meminfo.splitlines():
        name, _, value = entry.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise ValueError("/proc/meminfo has no MemAvailable")


def cgroup_left(limit: Path, usage: Path) -> int | None:
    """Bytes below the memory limit of the cgroup; None if there is no limit."""
    try:
        text = limit.read_text(encoding="ascii").strip()
        return None if text == "max" else max(0, int(text) - int(usage.read_text(encoding="ascii")))
    except OSError:
        return None
