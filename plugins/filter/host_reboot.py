"""Role host_reboot: why a host needs a reboot, and which units have to work after it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Sequence

MARK = "/run/reboot-required"


def reasons(state: Mapping[str, Any], gpu: Mapping[str, Any]) -> List[str]:
    """Clauses, none for a host that needs no reboot.

    state: of ddp.play.host_state; gpu: ddp_gpu of ddp.play.gpu_facts.
    """
    found = []
    if state["files"][MARK]["type"] != "absent":
        found.append(f"the distribution asks for it ({MARK})")
    if state["commands"]["needs_restarting"]["rc"] == 1:
        found.append("the distribution asks for it (needs-restarting)")
    return found + driver_reasons(gpu)


def driver_reasons(gpu: Mapping[str, Any]) -> List[str]:
    """Why the driver on disk is used only after a reboot."""
    installed, loaded = (gpu["driver"][where]["version"] for where in ("disk", "loaded"))
    if gpu["reboot"]["needed"] and loaded not in ("", installed):
        return [f"NVIDIA driver {installed} is installed, {loaded} is loaded"]
    return [f"NVIDIA driver {installed} is installed, {reason}" for reason in gpu["reboot"]["reasons"]]


def active(state: Mapping[str, Any]) -> List[str]:
    """Units that run. state: of ddp.play.host_state; none for a reading that there was not."""
    return [name for name, unit in state.get("units", {}).items() if unit["active"] == "active"]


def inspection(inactive: Sequence[str]) -> str:
    """Commands that show why these units do not run, or, if there are none, which mounts have failed."""
    return f"systemctl status {' '.join(inactive)}" if inactive else "systemctl --failed"


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "host_reboot_reasons": reasons,
            "host_reboot_active": active,
            "host_reboot_inspection": inspection,
        }
