"""Kernel settings of role base_os: those that it may set on a host, and those that the kernel does not have."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping


def sysctl(state: Mapping[str, Any], wanted: Mapping[str, Any], container: bool) -> Dict[str, str]:
    """Settings that the role may set: all, or in a container those of its network that are writable."""
    return {name: str(value) for name, value in wanted.items() if not container or _is_own(state, name)}


def sysctl_wrong(state: Mapping[str, Any], wanted: Mapping[str, str]) -> List[str]:
    """Settings whose value in the kernel differs. The kernel separates numbers with a tab."""
    return [name for name, value in wanted.items() if _file(state, name)["content"].split() != value.split()]


def _is_own(state: Mapping[str, Any], name: str) -> bool:
    """Whether the setting belongs to the container's network namespace and can be written there."""
    return name.startswith("net.") and _file(state, name).get("mode") == "0644"


def _file(state: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = state["files"]["/proc/sys/" + name.replace(".", "/")]
    return found


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"base_os_sysctl": sysctl, "base_os_sysctl_wrong": sysctl_wrong}
