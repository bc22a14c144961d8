"""State of each NVIDIA GPU without load, for `ddp-play check`: as nvidia-smi prints it, field by field.

Names of fields: `nvidia-smi --help-query-gpu`. One that this driver does not know is left out.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Set

from . import gpus, programs
from .bounded_reading import NotReadableHere

FIELDS = (
    "persistence_mode", "ecc.mode.current", "mig.mode.current", "power.limit", "clocks.max.sm", "vbios_version",
    "inforom.img", "pcie.link.width.current", "pcie.link.width.max", "ecc.errors.uncorrected.volatile.total",
    "gpu_recovery_action", "fabric.state", "fabric.status", "clocks_event_reasons.hw_slowdown",
    "clocks_event_reasons.hw_thermal_slowdown", "clocks_event_reasons.hw_power_brake_slowdown",
)  # fmt: skip
REMAPPED = ("remapped_rows.uncorrectable", "remapped_rows.pending", "remapped_rows.failure")
# What a field says that a GPU does not have. Errors, such as `[GPU is lost]`, stay in the answer.
NOTHING = ("", "N/A", "[N/A]", "[Not Supported]", "Not Supported", "[Requested functionality has been deprecated]")
UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')
LISTED = re.compile(r'"([a-z0-9_.]+)"')
GPU_LINE = re.compile(r"GPU (\d+): .*\(UUID: (GPU-[0-9a-f-]+)\)")
LINK_LINE = re.compile(r"\s*Link (\d+): (.+)")

Smi = Callable[..., List[str]]


def states(smi: Smi = gpus.smi) -> Dict[str, Dict[str, Any]]:
    """By GPU id, `index` and the fields that it has; `nvlinks`: numbers of active and inactive links."""
    if not programs.which("nvidia-smi"):
        raise NotReadableHere("no nvidia-smi")
    # Without persistence mode, each process waits until the driver has initialized all GPUs: not one after the other.
    with ThreadPoolExecutor(3) as pool:
        own = pool.submit(query, smi, "--query-gpu=", ("index", *FIELDS), "uuid")
        remapped = pool.submit(query, smi, "--query-remapped-rows=", REMAPPED, "gpu_uuid")
        status = pool.submit(_optional, smi, ["nvlink", "--status"])
    found = own.result()
    for uuid, row in remapped.result().items():
        found.setdefault(uuid, {}).update(row)
    for uuid, links in nvlinks(status.result()).items():
        found.setdefault(uuid, {})["nvlinks"] = links
    return found


def query(smi: Smi, option: str, fields: "tuple[str, ...]", identity: str) -> Dict[str, Dict[str, Any]]:
    """By id of the GPU, the fields of a query that its driver knows. Empty if the driver knows no such query."""
    wanted, listed = list(fields), None
    while wanted:
        try:
            (output,) = smi([option + ",".join([identity, *wanted]), "--format=csv,noheader,nounits"])
        except OSError as error:
            unknown = UNKNOWN_FIELD.search(str(error))
            if unknown is None or unknown.group(1) not in wanted:
                raise
            wanted.remove(unknown.group(1))
            # only the first unknown field is named: ask once for all that there are
            listed = _listed(smi, option) if listed is None else listed
            wanted = [name for name in wanted if not listed or name in listed]
            continue
        return rows(output, wanted)
    return {}


def _listed(smi: Smi, option: str) -> Set[str]:
    """Fields that the driver's help lists for a query; empty where it has no such list."""
    return set(LISTED.findall(_optional(smi, ["--help-" + option.strip("-=")])))


def rows(output: str, fields: List[str]) -> Dict[str, Dict[str, Any]]:
    """Rows of a query; a value that the GPU does not have is left out, and so is a line of another form."""
    found = {}
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == len(fields) + 1 and cells[0].startswith("GPU-"):
            found[cells[0]] = {name: cells[at] for at, name in enumerate(fields, 1) if cells[at] not in NOTHING}
    return found


def _optional(smi: Smi, words: List[str]) -> str:
    """Output of a command that fails where there is nothing to show."""
    try:
        return smi(words)[0]
    except OSError:
        return ""


def nvlinks(output: str) -> Dict[str, Dict[str, int]]:
    """By GPU id, how many of its links `nvidia-smi nvlink --status` shows with a speed, and how many inactive."""
    found: Dict[str, Dict[str, int]] = {}
    at = ""
    for line in output.splitlines():
        gpu, link = GPU_LINE.match(line), LINK_LINE.match(line)
        if gpu:
            at = gpu.group(2)
        elif link and at:
            counts = found.setdefault(at, {"active": 0, "inactive": 0})
            counts["active" if link.group(2).strip().endswith("GB/s") else "inactive"] += 1
    return found
