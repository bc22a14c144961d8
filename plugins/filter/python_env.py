"""Users of a Python environment: the busy hosts among those that share it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping

OUTSIDE = "(outside --limit, its state is unknown)"


def busy_hosts(hostvars: Mapping[str, Any], names: List[str], builder: str = "", limit: str = "") -> List[str]:
    """Busy hosts with their reasons. A host that was not read (unreachable) counts as busy: its state is unknown.

    names: hosts of the play. builder: the host that builds for all of them. limit: the pattern of --limit; members of
    group python_env outside it that have the same builder were not read.
    """
    found = []
    members = [name for name in hostvars if "python_env" in hostvars[name].get("group_names", [])]
    shared = [name for name in members if limit and builder and hostvars[name].get("python_env_builder") == builder]
    outside = [f"{name} {OUTSIDE}" for name in shared if name not in names]
    for name in names:
        state: Dict[str, Any] = hostvars[name].get("__python_env_state") or {}
        reasons = state["occupants"]["reasons"] if "occupants" in state else ["its state is unknown"]
        found += [f"{name} ({', '.join(reasons)})"] if reasons else []
    return found + outside


def next_step(busy: List[str]) -> str:
    """What to run next: with only hosts outside the limit, waiting does not help."""
    if all(entry.endswith(OUTSIDE) for entry in busy):
        return "Run ddp-play provision -i INVENTORY --tags python_env without --limit, --serial and --canary"
    return "Run it again when no host is busy"


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"python_env_busy_hosts": busy_hosts, "python_env_next_step": next_step}
