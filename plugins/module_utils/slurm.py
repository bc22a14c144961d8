"""Parsers of what a host knows for Slurm: its hardware line, its GPUs, its control groups; no I/O here."""

from __future__ import annotations

import re
from typing import Any, Dict, List

# Of `slurmd -C`: NodeName and UpTime are not hardware.
NOT_HARDWARE = ("NodeName", "UpTime")
GPU_FIELDS = {"Model": "model", "Device Minor": "minor"}
# Vendor and family, which every name has, are no type.
NO_TYPE = re.compile(r"^(nvidia|tesla|geforce|quadro|rtx)$")
CONTROLLERS = {"cpuset", "cpu", "memory"}
V1_CONTROLLERS = {"freezer", "cpuset", "memory", "devices"}


def parse_hardware(text: str) -> Dict[str, str]:
    """Keys of the first line of `slurmd -C`, such as CPUs and RealMemory (MiB); empty for another text."""
    for line in text.splitlines():
        if line.startswith("NodeName="):
            fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
            return {key: value for key, value in fields.items() if key not in NOT_HARDWARE}
    return {}


def parse_gpu(text: str) -> Dict[str, str]:
    """Model and minor number of a GPU, from /proc/driver/nvidia/gpus/*/information."""
    rows = (line.partition(":")[::2] for line in text.splitlines())
    return {GPU_FIELDS[key.strip()]: value.strip() for key, value in rows if key.strip() in GPU_FIELDS}


def gpu_type(model: str) -> str:
    """Type of a GPU for Slurm: `NVIDIA H100 80GB HBM3` is h100; empty if the model tells none."""
    words = re.findall(r"[a-z0-9]+", model.lower())
    return next((word for word in words if not NO_TYPE.match(word)), "")


def gpus(texts: List[str]) -> List[Dict[str, Any]]:
    """Type and minor number of every GPU, in the order of the device files."""
    found = [parse_gpu(text) for text in texts]
    rows = [{"type": gpu_type(row.get("model", "")), "minor": int(row["minor"])} for row in found if "minor" in row]
    return sorted(rows, key=lambda row: int(row["minor"]))


def controls_processes(v2_controllers: str, v1_directories: List[str], container: bool) -> bool:
    """Whether Slurm can hold a job's processes in control groups; not in a container, whose groups are not its own."""
    if container:
        return False
    return CONTROLLERS.issubset(v2_controllers.split()) or V1_CONTROLLERS.issubset(v1_directories)


def upstream(version: str) -> str:
    """Release of a package's version: 22.05.8-4+deb12u3 is 22.05. Daemons of one cluster share it."""
    found = re.match(r"(?:\d+:)?(\d+\.\d+)", version)
    return found[1] if found else ""


def is_loopback(address: str) -> bool:
    """Whether an address is reached on the host alone."""
    return address.startswith("127.") or address == "::1"


def parse_addresses(text: str) -> List[str]:
    """Addresses in the output of `getent ahosts NAME`."""
    return list(dict.fromkeys(line.split()[0] for line in text.splitlines() if line.split()))
