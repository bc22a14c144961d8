#!/usr/bin/python
"""Facts of a host for the GPU roles: GPUs, driver, DKMS, packages, units, problems."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
short_description: GPUs, NVIDIA driver state and reboot need of a host
version_added: "0.1.0"
description:
  - Reads sysfs, procfs, the module on disk, DKMS, installed packages with their holds, and units.
  - Changes nothing; needs no package on the host.
options:
  sysfs:
    description: Where to read devices and modules.
    type: path
    default: /sys
  procfs:
    description: Where to read the loaded driver and the users of the GPUs.
    type: path
    default: /proc
  packages:
    description: Glob patterns of package names to report with version and hold.
    type: list
    elements: str
    default: []
  exclude:
    description: Glob patterns of package names to exclude.
    type: list
    elements: str
    default: []
  units:
    description: systemd units to report.
    type: list
    elements: str
    default: []
  users:
    description: Report the processes that use a GPU, except daemons that monitor GPUs and our exporter.
    type: bool
    default: false
  smi:
    description: Run C(nvidia-smi -q -x).
    type: bool
    default: false
  cuda:
    description: Create a CUDA context, the only reliable test of the driver.
    type: bool
    default: false
  expect:
    description:
      - Wanted state, with any of version, flavour, packages, same_version, hold, dkms, loaded,
        gpus, units, fabric_manager, mig.
      - Fills RV(ansible_facts.ddp_gpu.problems).
    type: dict
author: the ddp-play authors
"""

EXAMPLES = r"""
- name: Look at the GPUs
  ddp.play.gpu_facts:

- name: Judge the driver
  ddp.play.gpu_facts:
    packages: [nvidia-*]
    smi: true
    expect: {version: "580", flavour: open, hold: true, loaded: true}
"""

RETURN = r"""
ansible_facts:
  description: The facts, under C(ddp_gpu).
  returned: always
  type: dict
  contains:
    ddp_gpu:
      description:
        - gpus, flavours, nvswitches, nvlink5, driver, kernel, secure_boot, dkms, packages, units, reboot, users,
          problems.
      type: dict
"""

import sys  # noqa: E402
import xml.etree.ElementTree as ET  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any, Dict  # noqa: E402

from ansible.module_utils.basic import AnsibleModule  # noqa: E402
from ansible_collections.ddp.play.plugins.module_utils import (  # noqa: E402
    driver_problems,
    nvidia,
    occupants,
    pci,
    reboot_occupants,
)
from ansible_collections.ddp.play.plugins.module_utils.host import (  # noqa: E402
    packages,
    read,
    read_bytes,
    run,
    unit_states,
)

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
        "driver": {"disk": disk, "loaded": loaded, "nouveau": host["nouveau"]},
        "kernel": {key: host[key] for key in ("running", "headers", "container")},
        "secure_boot": nvidia.parse_secure_boot(read_bytes(sysfs / SECURE_BOOT)),
        "dkms": nvidia.parse_dkms(run(["dkms", "status"])[1]),
        "packages": packages(params["packages"], params["exclude"]),
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


def main() -> None:
    """Return the facts. A driver or GPU that does not answer is a fact, not a failure of the module."""
    module = AnsibleModule(
        argument_spec={
            "sysfs": {"type": "path", "default": "/sys"},
            "procfs": {"type": "path", "default": "/proc"},
            "packages": {"type": "list", "elements": "str", "default": []},
            "exclude": {"type": "list", "elements": "str", "default": []},
            "units": {"type": "list", "elements": "str", "default": []},
            "users": {"type": "bool", "default": False},
            "smi": {"type": "bool", "default": False},
            "cuda": {"type": "bool", "default": False},
            "expect": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    module.exit_json(changed=False, ansible_facts={"ddp_gpu": gather(module.params)})


if __name__ == "__main__":
    main()
