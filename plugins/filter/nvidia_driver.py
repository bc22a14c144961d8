"""Role nvidia_driver: packages that differ from the wanted driver, and pending changes that ranks would notice."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

# An optional epoch and a driver's version: 580.178.04-1, 1:580.178.04-1.el9
DRIVER_VERSION = re.compile(r"(\d+:)?\d{3}\.\d+")
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


def occupants(reasons: List[str], users: List[Dict[str, Any]]) -> List[str]:
    """Why the host is busy. users: processes with a GPU device open."""
    held = ", ".join(f"{user['name']} pid {user['pid']}" for user in users)
    return [*reasons, *([f"GPUs are in use by {held}"] if held else [])]


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


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "nvidia_driver_changes": changes,
            "nvidia_driver_occupants": occupants,
            "nvidia_driver_offered": offered,
            "nvidia_driver_misfit": misfit,
            "nvidia_driver_unequal": unequal,
            "nvidia_driver_moving": moving,
        }
