"""Users of a Python environment: the busy hosts among those that share it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping


def busy_hosts(hostvars: Mapping[str, Any], names: List[str]) -> List[str]:
    """Busy hosts with their reasons. A host that was not read (unreachable) counts as busy: its state is unknown."""
    found = []
    for name in names:
        state: Dict[str, Any] = hostvars[name].get("__python_env_state") or {}
        reasons = state["occupants"]["reasons"] if "occupants" in state else ["its state is unknown"]
        found += [f"{name} ({', '.join(reasons)})"] if reasons else []
    return found


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"python_env_busy_hosts": busy_hosts}
