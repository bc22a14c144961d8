"""GPUs, driver, packages, units and users of the GPUs of a host; changes nothing."""

from __future__ import annotations

import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Dict

from ansible_collections.ddp.play.plugins.module_utils import (
    driver_problems,
    host_record,
    nvidia,
    occupants,
    pci,
    reboot_occupants,
)
from ansible_collections.ddp.play.plugins.module_utils.host import (
    packages,
    read,
    read_bytes,
    run,
    unit_states,
)

ARGUMENTS: Dict[str, Dict[str, Any]] = {
    "sysfs": {"type": "path", "default": "/sys"},
    "procfs": {"type": "path", "default": "/proc"},
    "packages": {"type": "list", "elements": "str", "default": []},
    "role": {"type": "str", "default": ""},
    "exclude": {"type": "list", "elements": "str", "default": []},
    "units": {"type": "list", "elements": "str", "default": []},
    "users": {"type": "bool", "default": False},
    "smi": {"type": "bool", "default": False},
    "cuda": {"type": "bool", "default": False},
    "expect": {"type": "dict"},
}
SECURE_BOOT = "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
MODULE_NAMES = ("nvidia", "nvidia-current-open", "nvidia-current")  # the last two are Debian's own packages
# Runs in a child process, because a broken driver may hang or crash it. Prints "devices error".
CUDA_PROBE = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
count, context = ctypes.c_int(), ctypes.c_void_p()
for name, call in (
    ("cuInit", lambda: cuda.cuInit(0)),
    ("cuDeviceGetCount", lambda: cuda.cuDeviceGetCount(ctypes.byref(count))),
    ("cuDevicePrimaryCtxRetain", lambda: cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)),
):
    code = call()
    if code:
        raise SystemExit(f"{name} {code}")
print(count.value)
"""


def disk_module(kernel: str) -> Dict[str, str]:
    """Version, flavour and path of the driver's module on disk for a kernel, by modinfo; empty if there is none."""
    for name in MODULE_NAMES:
        rc, out, _ = run(["modinfo", "-k", kernel, name])
        if rc == 0:
            fields = nvidia.parse_modinfo(out)
            return {
                "version": fields.get("version", ""),
                "flavour": nvidia.licence_flavour(fields.get("license", "")),
                "path": fields.get("filename", ""),
            }
    return {"version": "", "flavour": "", "path": ""}


def loaded_module(sysfs: Path, procfs: Path) -> Dict[str, str]:
    """Version and flavour of the loaded module, from sysfs and procfs; empty if none is loaded."""
    version = read(sysfs / "module/nvidia/version")
    nvrm = nvidia.parse_nvrm(read(procfs / "driver/nvidia/version") + " ")
    return {"version": version or nvrm["version"], "flavour": nvrm["flavour"]}


def programs() -> Dict[str, str]:
    """Paths of nvidia-smi, and of the program that removes a driver of NVIDIA's own installer; empty if missing."""
    return {"program": shutil.which("nvidia-smi") or "", "uninstaller": shutil.which("nvidia-uninstall") or ""}


def smi() -> Dict[str, Any]:
    """Parsed output of `nvidia-smi -q -x`, with a time limit of 120 s; `error` has the reason if there is none."""
    rc, out, err = run(["nvidia-smi", "-q", "-x"], timeout_s=120)
    if rc != 0:
        return {"error": f"rc {rc}: {(err or out).strip()[:300]}", "driver_version": "", "gpus": []}
    try:
        return {**nvidia.parse_smi(out), "error": ""}
    except ET.ParseError as error:
        return {"error": f"unreadable XML: {error}", "driver_version": "", "gpus": []}


def cuda_context() -> Dict[str, Any]:
    """Number of devices on which CUDA starts, tested in a child process; `error` has CUDA's call and code."""
    rc, out, err = run([sys.executable, "-c", CUDA_PROBE], timeout_s=120)
    if rc != 0:
        return {"devices": 0, "error": (err.strip().splitlines() or [f"rc {rc}"])[-1]}
    return {"devices": int(out), "error": ""}


def running_kernel(sysfs: Path, kernel: str) -> Dict[str, Any]:
    """Release of the running kernel, and whether its headers are there, nouveau is loaded, this is a container."""
    return {
        "running": kernel,
        "headers": Path(f"/lib/modules/{kernel}/build/Makefile").exists(),
        "container": run(["systemd-detect-virt", "--container", "--quiet"])[0] == 0,
        "nouveau": (sysfs / "module/nouveau").exists(),
    }


def gather(params: Dict[str, Any]) -> Dict[str, Any]:
    """All facts that the module's parameters request, as `ddp_gpu` returns them."""
    sysfs, procfs = Path(params["sysfs"]), Path(params["procfs"])
    _, kernel, _ = run(["uname", "-r"])
    host = running_kernel(sysfs, kernel.strip())
    found = pci.devices(sysfs)
    gpus = [d for d in found if pci.is_gpu(d)]
    disk, loaded = disk_module(host["running"]), loaded_module(sysfs, procfs)
    reasons = nvidia.reboot_reasons(loaded, disk, host["nouveau"])
    vpds = (read_bytes(path) or b"" for path in (sysfs / "class/infiniband").glob("*/device/vpd"))
    facts: Dict[str, Any] = {
        "num_pci_devices": len(found),
        "gpus": [pci.describe_gpu(d) for d in gpus],
        "flavours": pci.flavours([d.device for d in gpus]),
        "nvswitches": [d.slot for d in found if pci.is_nvswitch(d)],
        "nvlink5": any(b"SW_MNG" in vpd for vpd in vpds),
        "driver": {"disk": disk, "loaded": loaded, "nouveau": host["nouveau"], **programs()},
        "kernel": {key: host[key] for key in ("running", "headers", "container")},
        "secure_boot": nvidia.parse_secure_boot(read_bytes(sysfs / SECURE_BOOT)),
        "dkms": nvidia.parse_dkms(run(["dkms", "status"])[1]),
        "packages": packages(params["packages"], params["exclude"]),
        "recorded": host_record.names(host_record.RECORD, params["role"], host_record.PACKAGES),
        "recorded_holds": host_record.names(host_record.RECORD, params["role"], host_record.HELD),
        "units": unit_states(params["units"]),
        "reboot": {"needed": bool(reasons), "reasons": reasons},
    }
    if params["users"]:
        facts["users"] = reboot_occupants.disturbed_users(procfs, reboot_occupants.GPU, occupants.ENGINE_TIMEOUT_S)
    if params["smi"]:
        facts["smi"] = smi()
    if params["cuda"]:
        facts["cuda"] = cuda_context()
    if params["expect"] is not None:
        facts["problems"] = driver_problems.problems(facts, params["expect"])
    return facts
