"""NVIDIA GPUs of this host: found in sysfs (no driver needed), described by nvidia-smi if it works."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

from . import numa_facts, programs

PCI = Path("/sys/bus/pci/devices")
SMI_S = 20.0
LEAVE_S = 1.0
QUERY = "index,uuid,name,memory.total,pci.bus_id,driver_version"


def pci_addresses() -> List[str]:
    """PCI addresses of NVIDIA display and 3D controllers (vendor 10de, base class 03)."""
    found = []
    for device in sorted(PCI.iterdir()) if PCI.is_dir() else []:
        try:
            vendor = (device / "vendor").read_text().strip()
            pci_class = (device / "class").read_text().strip()
        except OSError:
            continue
        if vendor == "0x10de" and pci_class.startswith("0x03"):
            found.append(device.name)
    return found


def smi(*queries: List[str]) -> List[str]:
    """Outputs of nvidia-smi for these arguments, one process each, at once. Raises OSError or SubprocessError.

    Without persistence mode, the driver initializes all GPUs for a process that comes when no other uses them.
    """
    deadline = time.monotonic() + SMI_S
    processes: List[subprocess.Popen[bytes]] = []
    try:
        for query in queries:
            processes.append(subprocess.Popen(["nvidia-smi", *query], stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return [_output(process, deadline) for process in processes]
    finally:
        for process in processes:
            _leave(process)


def _leave(process: subprocess.Popen[bytes]) -> None:
    """End it. One that hangs in the driver does not end, not even by SIGKILL, and is not waited for."""
    process.kill()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(LEAVE_S)


def _output(process: subprocess.Popen[bytes], deadline: float) -> str:
    output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
    if process.returncode:
        raise OSError((output + errors).decode("utf-8", "replace").strip() or "nvidia-smi failed")
    return output.decode("utf-8", "replace")


def parse_gpus(text: str) -> List[Dict[str, Any]]:
    """GPUs from the output of `nvidia-smi --query-gpu=... --format=csv,noheader,nounits`; memory in MiB."""
    rows = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) < 6 or not cells[0].isdigit():
            continue
        rows.append(
            {
                "index": int(cells[0]),
                "uuid": cells[1],
                "model": cells[2],
                "memory_mib": int(cells[3]) if cells[3].isdigit() else 0,
                "pci": cells[4],
                "driver": cells[5],
                "numa_node": numa_facts.node_of_pci(cells[4]),
                "users": [],
            }
        )
    return rows


def parse_users(text: str) -> Dict[str, List[str]]:
    """GPU uuid -> `pid name` of its compute processes, from `nvidia-smi --query-compute-apps`."""
    users: Dict[str, List[str]] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) >= 3:
            users.setdefault(cells[0], []).append("%s %s" % (cells[1], cells[2]))
    return users


def gpus() -> Tuple[List[Dict[str, Any]], str]:
    """(GPUs as nvidia-smi lists them, problem); problem: sysfs has GPUs that nvidia-smi does not list, else empty."""
    present = pci_addresses()
    if not programs.which("nvidia-smi"):
        return [], ("%d NVIDIA GPU(s) but no nvidia-smi: is the driver installed?" % len(present)) if present else ""
    try:
        listing, processes = smi(
            ["--query-gpu=" + QUERY, "--format=csv,noheader,nounits"],
            ["--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader"],
        )
    except (OSError, subprocess.SubprocessError) as error:
        return [], "nvidia-smi does not work: %s" % error if present else ""
    rows, users = parse_gpus(listing), parse_users(processes)
    for row in rows:
        row["users"] = users.get(row["uuid"], [])
    if len(rows) < len(present):
        return rows, "%d NVIDIA GPU(s) in sysfs, nvidia-smi shows %d" % (len(present), len(rows))
    return rows, ""
