"""Role rdma: commands that set addresses of InfiniBand interfaces, pending changes, problems of a host."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

from ansible_collections.ddp.play.plugins.module_utils import infiniband

DEFAULT_MTU = 2044


def apply_commands(links: List[Dict[str, Any]], manager: str, path: str) -> List[List[str]]:
    """Commands that bring up the named interfaces and no other. manager: ifupdown, netplan or nmstate.

    `netplan apply` applies to all interfaces, and `networkctl reload` after `netplan generate` removes the addresses
    of every interface for a moment, because generate rewrites all files. So `ip` sets the addresses in the running
    system, and netplan's file is for the next boot.
    """
    names = [link["interface"] for link in links]
    if not names:
        return []
    if manager == "ifupdown":
        # ifup alone keeps the old address in addition to the new one.
        return [["ifdown", "--force", *names], ["ifup", "--force", *names]]
    if manager == "nmstate":
        return [["nmstatectl", "apply", path]]  # changes only the interfaces that the file names
    return [["netplan", "get"], *(command for link in links for command in _ip_commands(link))]


def _ip_commands(link: Dict[str, Any]) -> List[List[str]]:
    device = ["dev", link["interface"]]
    mode = [["ip", "link", "set", *device, "type", "ipoib", "mode", link["mode"]]] if link.get("mode") else []
    mtu = str(link.get("mtu") or DEFAULT_MTU)
    return [
        *mode,
        ["ip", "link", "set", *device, "mtu", mtu, "up"],
        ["ip", "address", "replace", link["address"], *device],
    ]


def changes(missing: List[str], links: List[Dict[str, Any]], is_stale: bool) -> List[str]:
    """Pending changes that ranks would notice: packages with their drivers, addresses."""
    found = ["install " + ", ".join(sorted(missing))] if missing else []
    if links and is_stale:
        found.append("bring up " + ", ".join(link["interface"] for link in links))
    return found


def problems(facts: Dict[str, Any], expect: Dict[str, Any], missing: List[str], drifted: List[str]) -> List[str]:
    """Each problem in one sentence; empty if the host is as wanted. facts: ddp_rdma of ddp.play.rdma_facts.

    expect: with any of hcas, devices, active_ports, rate_gbps, addresses; missing: packages; drifted: paths.
    """
    return [
        *(f"package {name} is not installed" for name in missing),
        *(f"{path} is not as provisioned" for path in drifted),
        *infiniband.problems(facts, expect),
    ]


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {"rdma_apply_commands": apply_commands, "rdma_changes": changes, "rdma_problems": problems}
