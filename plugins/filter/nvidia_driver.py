"""Role nvidia_driver: whether a driver that is there is used, packages of the wanted one, pending changes."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

# An optional epoch and a driver's version: 580.178.04-1, 1:580.178.04-1.el9
DRIVER_VERSION = re.compile(r"(\d+:)?\d{3}\.\d+")
# Packages that a driver is made of, as NVIDIA and the distributions name them. nvidia-settings, say, is no such one.
DRIVER_PACKAGE = re.compile(
    r"libcuda1|libnvidia-(compute|decode|ml)|nvidia-(current|dkms|driver|headless|kernel|open|smi|utils)|"
    r"cuda-drivers|kmod-nvidia|linux-modules-nvidia"
)
FROM_NO_PACKAGE = "came from no package that this role knows"
EPOCH_AND_REVISION = re.compile(r"^\d+:|-.*$")


def changes(facts: Dict[str, Any], wanted: Dict[str, Any]) -> List[str]:
    """Changes that break running work. facts: ddp_gpu of ddp.play.gpu_facts; wanted: what the role computed from them.

    wanted: version, misfit and missing (packages), fabric_unequal and fabric_surplus (packages), override_stale (the
    persistence daemon restarts and systemd reloads), reboot (one is needed and was requested).
    """
    found = []
    if wanted["misfit"]:
        found.append(f"change the driver to {wanted['version']}")
    elif wanted["missing"]:
        found.append(f"install {', '.join(wanted['missing'])}")
    if wanted["fabric_unequal"]:
        found.append(f"change {', '.join(wanted['fabric_unequal'])} to the driver's version")
    if wanted["fabric_surplus"]:
        found.append(f"remove {', '.join(wanted['fabric_surplus'])}")
    if wanted["override_stale"]:
        found.append("restart nvidia-persistenced and reload systemd")
    if wanted["reboot"] and facts["reboot"]["needed"]:
        found.append(f"reboot ({'; '.join(facts['reboot']['reasons'])})")
    return found


def foreign(facts: Mapping[str, Any], torch_version: str, floor: str, replace: bool) -> Dict[str, str]:
    """Decision on a driver that this role has not installed: the site's packages, NVIDIA's installer, an image's maker.

    floor: oldest branch for this version of torch; empty if none is to be checked. The action is use, refuse, or none
    (there is no such driver, or it may be replaced); origin, why and the tool that removes it are for the message.
    """
    driver = facts["driver"]
    packaged = sorted(name for name in facts["packages"] if DRIVER_PACKAGE.match(name))
    if not driver["program"] or set(packaged) & set(facts["recorded"]):
        return {"action": "none", "why": "", "origin": "", "tool": ""}
    named = ", ".join(packaged[:3])
    origin = f"is of packages that this role has not installed ({named})" if packaged else FROM_NO_PACKAGE
    version, tool = driver["loaded"]["version"], "" if packaged else driver["uninstaller"]
    if replace:
        why = f"{tool} is still there" if tool else ""
        return {"action": "refuse" if why else "none", "why": why, "origin": origin, "tool": tool}
    why = ""
    if not version:
        why = "its module is not loaded"
    elif floor and int(version.split(".")[0]) < int(floor):
        why = f"{version} is too old for torch {torch_version}, which needs {floor}"
    return {"action": "refuse" if why else "use", "why": why or version, "origin": origin, "tool": tool}


# Kernel that each release came with; a newer one is of Ubuntu's hardware enablement (HWE) series.
UBUNTU_KERNELS = {"22.04": "5.15", "24.04": "6.8", "26.04": "7.0"}
# Flavours that have HWE metapackages; those of clouds have one metapackage for all series.
HWE_FLAVOURS = ("generic", "generic-64k", "lowlatency", "lowlatency-64k")
KERNEL = re.compile(
    r"(?P<series>[0-9]+\.[0-9]+)\.[0-9]+(?:-[0-9]+|\+(?:deb|bpo)[0-9.~a-z]*|\+bpo)+-(?P<flavour>[a-z][a-z0-9-]*)$"
)


def kernel_flavour(kernel: str, distribution: str, release: str) -> str:
    """Flavour in the names of metapackages: 6.8.0-60-generic on Ubuntu 22.04 -> generic-hwe-22.04.

    Empty for a kernel that is not the distribution's own.
    """
    found = KERNEL.match(kernel)
    if not found:
        return ""
    series, flavour = found["series"], found["flavour"]
    is_hwe = distribution == "Ubuntu" and series != UBUNTU_KERNELS.get(release) and flavour in HWE_FLAVOURS
    return flavour + (f"-hwe-{release}" if is_hwe else "")


def kernel_packages(kernel: str, distribution: str, release: str, prefix: str) -> List[str]:
    """Package of the running kernel, and the metapackage that brings the same for the next kernel."""
    flavour = kernel_flavour(kernel, distribution, release)
    return [prefix + kernel, *([prefix + flavour] if flavour else [])]


def offered(branches: Mapping[str, Mapping[str, Any]]) -> List[str]:
    """Branches that the role installs. branches: NVIDIA's table with `offered` by branch."""
    return [name for name, branch in branches.items() if branch["offered"]]


def misfit(packages: Mapping[str, Mapping[str, Any]], names: Sequence[str], wanted: str) -> List[str]:
    """Versions of the installed ones of these packages that are not the wanted branch or version."""
    versions = [EPOCH_AND_REVISION.sub("", found["version"]) for name, found in packages.items() if name in names]
    return [version for version in versions if version != wanted and not version.startswith(wanted + ".")]


def unequal(packages: Mapping[str, Mapping[str, Any]], names: Sequence[str], version: str) -> List[str]:
    """The installed ones of these packages whose version is not this one, whatever the revision after the hyphen."""
    found = [name for name in packages if name in names]
    return [name for name in found if not packages[name]["version"].startswith(version + "-")]


def moving(packages: Mapping[str, Mapping[str, Any]], wanted: Sequence[str], branch: str) -> List[str]:
    """Packages that change version together: the wanted ones, and those with a driver's version.

    Not those with another branch in their name, and not the package that pins a branch.
    """
    other = re.compile(r"pinning|-(?!%s)\d{3}(-|$)" % branch)
    versioned = [name for name, found in packages.items() if DRIVER_VERSION.match(found["version"])]
    return list(dict.fromkeys([*wanted, *(name for name in versioned if not other.search(name))]))


def stopped(units: Mapping[str, Mapping[str, str]], wanted: Sequence[str]) -> List[str]:
    """Wanted units that do not run, are not there, or are disabled; a static unit needs not be enabled."""
    found = {name: units.get(name, {}) for name in wanted}
    return [name for name, unit in found.items() if unit.get("active") != "active" or unit.get("enabled") == "disabled"]


def all_problems(problems: Sequence[str], file_faults: str, source_stale: bool, host: str) -> List[str]:
    """Problems of the driver, and those of the role's files with the command that repairs them.

    file_faults: files that are not as wanted, as one text; source_stale: the repository or its key is not as
    provisioned.
    """
    files = [file_faults] if file_faults else []
    source = ["its repository or key is not as provisioned"] if source_stale else []
    remedy = f"to repair: ddp-play provision -i INVENTORY --limit {host} --tags nvidia_driver"
    return [*problems, *(f"{text} ({remedy})" for text in files + source)]


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "nvidia_driver_all_problems": all_problems,
            "nvidia_driver_changes": changes,
            "nvidia_driver_foreign": foreign,
            "nvidia_driver_kernel_packages": kernel_packages,
            "nvidia_driver_offered": offered,
            "nvidia_driver_misfit": misfit,
            "nvidia_driver_unequal": unequal,
            "nvidia_driver_moving": moving,
            "nvidia_driver_stopped": stopped,
        }
