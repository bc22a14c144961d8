"""Kernel settings of role base_os: those that it may set on a host, and those that the kernel does not have."""

from __future__ import annotations

import sys
from typing import Any, Callable, Dict, List, Mapping

# Sizes of buffers and queues: whoever set more needs it.
AT_LEAST = frozenset({"net.core.rmem_max", "net.core.wmem_max", "net.core.somaxconn"})
# Up to what every supported system allows, only the soft limit is set: programs can still raise their own.
SOFT = {"nofile": 524288, "stack": sys.maxsize}


def sysctl(state: Mapping[str, Any], wanted: Mapping[str, Any], container: bool, own_file: str) -> Dict[str, str]:
    """Settings that the role may set: all, or in a container those of its network that are writable.

    One of AT_LEAST is left out where the host has more than is wanted, unless it has that from `own_file`, the role's.
    """
    able = {name: str(value) for name, value in wanted.items() if not container or _is_own(state, name)}
    return {name: value for name, value in able.items() if not _has_more(state, name, value, own_file)}


def _has_more(state: Mapping[str, Any], name: str, wanted: str, own_file: str) -> bool:
    there = _file(state, name)["content"].strip()
    numbers = there.isdigit() and wanted.isdigit()
    if name not in AT_LEAST or not numbers or int(there) <= int(wanted):
        return False
    ours = state["files"].get(own_file, {}).get("content") or ""
    return "%s = %s" % (name, there) not in ours.splitlines()


def limits(wanted: Mapping[str, Any]) -> List[str]:
    """Rows of limits.d without the domain: `soft` where the host's hard limit may stay, `-` (both) elsewhere."""
    return [
        "%s %s %s" % ("soft" if str(value).isdigit() and int(value) <= SOFT.get(name, -1) else "-", name, value)
        for name, value in wanted.items()
    ]


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
        return {"base_os_sysctl": sysctl, "base_os_sysctl_wrong": sysctl_wrong, "base_os_limits": limits}
