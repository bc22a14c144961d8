"""Pending changes of role nvidia_container_toolkit that running containers would notice."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List

MODE = re.compile(r'^\s*mode\s*=\s*"([^"]*)"', re.MULTILINE)


def changes(state: Dict[str, Any], mode: str) -> List[str]:
    """Changes that restart the engine or reload systemd. mode: wanted mode of the runtime; auto keeps the host's.

    state: version, misfit (packages), config (text of config.toml), unwatched (the path unit does not run),
    undescribed (the loaded driver has no CDI specification yet).
    """
    found = []
    if state["misfit"]:
        found.append(f"install {', '.join(sorted(state['misfit']))} {state['version']} and restart the engine")
    if mode != "auto" and mode not in MODE.findall(state["config"]):
        found.append(f"set the runtime's mode to {mode} and restart the engine")
    if state["unwatched"]:
        found.append("start nvidia-cdi-refresh.path and reload systemd")
    if state["undescribed"]:
        found.append("write the CDI specification and restart the engine")
    return found


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"nvidia_container_toolkit_changes": changes}
