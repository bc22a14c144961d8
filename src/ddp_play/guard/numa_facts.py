"""NUMA nodes of this host, from sysfs: the CPUs of each that this process may use, its socket, and its memory."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Set

NODES = Path("/sys/devices/system/node")
CPUS = Path("/sys/devices/system/cpu")
PCI = Path("/sys/bus/pci/devices")
STATUS = Path("/proc/self/status")
UNKNOWN = -1  # the kernel says so too


def numbers(text: str) -> FrozenSet[int]:
    """`0-2,4` -> 0, 1, 2, 4; the form in which the kernel lists CPUs and nodes. Raises ValueError."""
    found: Set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def ranges(values: Iterable[int]) -> str:
    """0, 1, 2, 4 -> `0-2,4`."""
    found: List[List[int]] = []
    for value in sorted(values):
        if found and value == found[-1][1] + 1:
            found[-1][1] = value
        else:
            found.append([value, value])
    return ",".join(str(first) if first == last else "%d-%d" % (first, last) for first, last in found)


def nodes() -> List[Dict[str, Any]]:
    """The nodes with CPUs, by number. Empty without sysfs, or if it is not as expected."""
    try:
        names = [path for path in NODES.iterdir() if re.match(r"node\d+\Z", path.name)]
        allowed, memory = os.sched_getaffinity(0), _memory_nodes()
        rows = [_node(int(path.name[len("node") :]), path, allowed, memory) for path in names]
    except (OSError, ValueError):
        return []
    return sorted((row for row in rows if row is not None), key=lambda row: int(row["node"]))


def _node(number: int, path: Path, allowed: Iterable[int], memory: FrozenSet[int]) -> Optional[Dict[str, Any]]:
    cpus = numbers((path / "cpulist").read_text())
    if not cpus:
        return None  # memory only: no GPU is on it
    usable = cpus.intersection(allowed)
    socket = _number(CPUS / ("cpu%d" % min(usable or cpus)) / "topology" / "physical_package_id")
    return {
        "node": number,
        "cpus": ranges(usable),
        "socket": socket,
        "memory": number in memory,
        "whole": usable == cpus,
    }


def _memory_nodes() -> FrozenSet[int]:
    """Nodes with memory that this process may use."""
    found = numbers((NODES / "has_memory").read_text())
    lines = [line for line in STATUS.read_text().splitlines() if line.startswith("Mems_allowed_list:")]
    return found & numbers(lines[0].partition(":")[2]) if lines else found


def node_of_pci(address: str) -> int:
    """Node of a PCI device, by its address as nvidia-smi writes it (`00000000:18:00.0`); UNKNOWN if there is none."""
    domain, _, rest = address.lower().partition(":")
    try:
        return _number(PCI / ("%04x:%s" % (int(domain, 16), rest)) / "numa_node")
    except ValueError:
        return UNKNOWN


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return UNKNOWN
