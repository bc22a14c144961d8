"""Problems of a host's NVIDIA driver, from its facts and the wanted state; no I/O here."""

from __future__ import annotations

from typing import Any, Dict, List

from ansible_collections.ddp.play.plugins.module_utils.nvidia import upstream

Facts = Dict[str, Any]
# Not held: Ubuntu's metapackages of modules must follow the kernel, or the next kernel has none.
KERNEL_MODULES = "linux-modules-nvidia-"


def problems(facts: Facts, expect: Facts) -> List[str]:
    """Each problem in one sentence with its evidence; empty if the host is in the state `expect`."""
    found: List[str] = []
    for check in (_packages, _module, _dkms, _loaded, _smi, _cuda, _units, _fabric, _mig):
        found += check(facts, expect)
    return found


def _packages(facts: Facts, expect: Facts) -> List[str]:
    found = []
    installed = facts["packages"]
    for name in expect.get("packages", []):
        if name not in installed:
            found.append(f"package {name} is not installed")
    wanted = expect.get("version", "")
    for name in expect.get("same_version", []):
        if name in installed and not _matches(upstream(installed[name]["version"]), wanted):
            found.append(f"package {name} is {installed[name]['version']}, wanted {wanted}")
    if expect.get("hold"):
        loose = sorted(name for name, p in installed.items() if not p["held"] and not name.startswith(KERNEL_MODULES))
        if loose:
            found.append(f"not on hold: {', '.join(loose)} (an unattended upgrade would split the driver)")
    return found


def _matches(version: str, wanted: str) -> bool:
    return not wanted or version == wanted or version.startswith(wanted + ".")


def _module(facts: Facts, expect: Facts) -> List[str]:
    if expect.get("foreign"):
        return []  # such a driver may have its modules anywhere; what is loaded is judged
    found = []
    disk = facts["driver"]["disk"]
    if not disk["version"]:
        return [f"no nvidia module for the running kernel {facts['kernel']['running']} is on disk"]
    if not _matches(disk["version"], expect.get("version", "")):
        found.append(f"module on disk is {disk['version']}, wanted {expect['version']}")
    if expect.get("flavour") and disk["flavour"] != expect["flavour"]:
        found.append(f"module on disk is the {disk['flavour']} one, wanted {expect['flavour']}")
    return found


def _dkms(facts: Facts, expect: Facts) -> List[str]:
    if not expect.get("dkms"):
        return []
    running = facts["kernel"]["running"]
    states = [e["state"] for e in facts["dkms"] if e["module"].startswith("nvidia") and e["kernel"] == running]
    if "installed" in states:
        return []
    return [f"dkms has no nvidia module installed for the running kernel {running} (states: {states or 'none'})"]


def _loaded(facts: Facts, expect: Facts) -> List[str]:
    if not expect.get("loaded"):
        return []
    driver = facts["driver"]
    needed = [f"reboot needed: {reason}" for reason in facts["reboot"]["reasons"]]
    if driver["nouveau"]:
        return needed or ["nouveau is loaded"]
    if not driver["loaded"]["version"]:
        return ["the nvidia module is not loaded"]
    return needed


def _smi(facts: Facts, expect: Facts) -> List[str]:
    smi = facts.get("smi")
    if smi is None:
        return []
    if smi.get("error"):
        return [f"nvidia-smi failed: {smi['error']}"]
    found = []
    module = facts["driver"]["loaded" if expect.get("foreign") else "disk"]["version"]
    if module and smi["driver_version"] != module:
        found.append(f"nvidia-smi is of version {smi['driver_version']}, the module is {module}")
    counts = {"nvidia-smi": len(smi["gpus"])}
    # a container may have a part of the machine's GPUs, and sees all in sysfs
    if not (expect.get("foreign") and facts["kernel"].get("container")):
        counts["sysfs"] = len(facts["gpus"])
    if expect.get("gpus"):
        counts["inventory"] = expect["gpus"]
    if len(set(counts.values())) > 1:
        found.append("GPU counts differ: " + ", ".join(f"{k} {v}" for k, v in counts.items()))
    return found


def _cuda(facts: Facts, _expect: Facts) -> List[str]:
    cuda = facts.get("cuda")
    if cuda is None or not cuda["error"]:
        return []
    hints = {
        "cuInit 3": " (with open modules: try nvidia_driver_uvm_disable_hmm)",
        "802": " (NVSwitch without a matching fabric manager)",
    }
    hint = next((text for code, text in hints.items() if code in cuda["error"]), "")
    return [f"no CUDA context: {cuda['error']}{hint}"]


def _units(facts: Facts, expect: Facts) -> List[str]:
    found = []
    for unit in expect.get("units", []):
        state = facts["units"].get(unit, {})
        if state.get("active") != "active":
            found.append(f"{unit} is {state.get('active') or 'absent'}, wanted active")
    return found


def _fabric(facts: Facts, expect: Facts) -> List[str]:
    if expect.get("foreign"):
        return _fabric_states(facts)
    if not expect.get("fabric_manager"):
        active = facts["units"].get("nvidia-fabricmanager", {}).get("active")
        return (
            [f"nvidia-fabricmanager is {active} on a host without NVSwitch"] if active in ("active", "failed") else []
        )
    managers = (n for n in facts["packages"] if n.startswith("nvidia-fabricmanager") and "dev" not in n)
    named = next(managers, "")
    manager = facts["packages"].get(named)
    if manager is None:
        return ["NVSwitch is present but nvidia-fabricmanager is not installed"]
    disk = facts["driver"]["disk"]["version"]
    if disk and upstream(manager["version"]) != disk:
        return [f"{named} is {manager['version']}, the driver is {disk}: they must be equal (CUDA error 802)"]
    return _fabric_states(facts)


def _fabric_states(facts: Facts) -> List[str]:
    bad = [
        g["slot"] for g in (facts.get("smi") or {}).get("gpus", []) if g["fabric_state"] not in ("", "N/A", "Completed")
    ]
    return [f"fabric state is not Completed on {', '.join(bad)}"] if bad else []


def _mig(facts: Facts, expect: Facts) -> List[str]:
    """MIG mode of each GPU: the current one, and the pending one, which it has after its next reset."""
    wanted = expect.get("mig") or ""
    gpus = (facts.get("smi") or {}).get("gpus", []) if wanted else []
    return [text for text in (_mig_of(gpu, wanted) for gpu in gpus) if text]


def _mig_of(gpu: Dict[str, str], wanted: str) -> str:
    """What differs, with its remedy; empty if nothing does. A GPU that has no MIG says N/A, or nothing."""
    current = gpu["mig"].lower()
    pending = gpu["mig_pending"].lower() or current
    if current not in ("enabled", "disabled"):
        return f"GPU {gpu['slot']} has no MIG, wanted {wanted}" if wanted == "enabled" else ""
    if current == pending == wanted:
        return ""
    switch = f"nvidia-smi -i {gpu['slot']} -mig {int(wanted == 'enabled')}"
    remedy = switch if pending != wanted else ""
    if current != wanted:
        remedy = " and then ".join(filter(None, [remedy, f"nvidia-smi --gpu-reset -i {gpu['slot']} or a reboot"]))
    modes = f"MIG mode is {current}, pending {pending}, wanted {wanted}"
    return f"GPU {gpu['slot']}: {modes} (while nothing uses it: {remedy})"
