"""Pending changes of role nvidia_driver that ranks would notice, and why a reboot is pending."""

from __future__ import annotations

from typing import Any, Callable, Dict, List


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


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"nvidia_driver_changes": changes, "nvidia_driver_occupants": occupants}
