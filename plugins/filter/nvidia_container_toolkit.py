"""Role nvidia_container_toolkit: whether a toolkit that is there is used; pending changes that containers notice."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, List, Mapping, Sequence

from ansible.module_utils.compat.version import LooseVersion

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


def foreign(
    state: Mapping[str, Any], packages: Sequence[str], wanted: str, oldest: str, replace: bool
) -> Dict[str, str]:
    """Decision on a toolkit that this role has not installed.

    state: as ddp.play.host_state returns it for these packages and their predecessors, with the record of the role.
    packages: of the toolkit, the main one last; wanted: their version; oldest: the first version that ranks can use.
    The action is use, refuse, or none (there is none but parts of the wanted version, or it may be replaced); why is
    for the message, version is that of the main package.
    """
    there = {name: version.split("-")[0] for name, version in state["packages"].items() if version}
    theirs = {name: version for name, version in there.items() if name not in state["recorded"]}
    main = packages[-1]
    version = there.get(main, "")
    choice = {"action": "none", "version": version, "why": f"{main} {version}"}
    parts_fit = all(name in packages[:-1] and found == wanted for name, found in theirs.items())
    if replace or parts_fit or main in state["recorded"]:
        return choice
    if re.match(r"\d", version) and LooseVersion(version) >= LooseVersion(oldest):
        return {**choice, "action": "use"}
    named = ", ".join(f"{name} {found}" for name, found in sorted(theirs.items()))
    return {**choice, "action": "refuse", "why": f"{named}: ranks need {main} {oldest} or newer"}


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"nvidia_container_toolkit_changes": changes, "nvidia_container_toolkit_foreign": foreign}
