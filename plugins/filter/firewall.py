"""Firewall of a host for role base_os: who manages it, the rules that it lacks, and why it cannot have them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.ddp.play.plugins.plugin_utils import firewall_rule, firewalld, ufw

if TYPE_CHECKING:
    from ansible_collections.ddp.play.plugins.plugin_utils.firewall_rule import Rule, Steps

FIREWALLD = "firewalld"
UFW = "ufw"
OWN_TABLE = "nftables"
NOT_INSTALLED = 127  # exit code of a program that is missing
Rows = Sequence[Mapping[str, Any]]


def front_end(state: Mapping[str, Any]) -> str:
    """Program of the site that filters: firewalld or ufw; nftables where none does, for a table of our own."""
    if state["commands"]["firewalld_zones"]["rc"] == 0:
        return FIREWALLD
    return UFW if ufw.is_active(state["commands"]) else OWN_TABLE


def rules(subnets: Sequence[str], ranges: Sequence[str], extra: Rows) -> List[Dict[str, Any]]:
    """The wanted rules as dictionaries, and for firewalld as the text of its rich language."""
    try:
        found = firewall_rule.wanted_rules(subnets, ranges, extra)
    except ValueError as error:
        raise AnsibleFilterError("base_os_firewall_subnets or base_os_firewall_extra: %s" % error) from error
    return [
        {"protocol": row.protocol, "ports": row.ports, "source": row.source, "is_ipv6": row.is_ipv6} for row in found
    ]


def steps(state: Mapping[str, Any], wanted: Rows) -> Steps:
    """Steps for ddp.play.firewall_rules: add what the site's firewall lacks, remove our rules that are not wanted.

    Without a wanted rule ours are removed from an inactive ufw too; firewalld has nothing while it does not run.
    """
    commands = state["commands"]
    by = front_end(state)
    found = firewalld.steps(commands, _rules(wanted)) if by == FIREWALLD else []
    if by == UFW or (not wanted and commands["ufw_rules"]["rc"] == 0):
        found += ufw.steps(commands, _rules(wanted))
    return found


def closed(state: Mapping[str, Any], wanted: Rows) -> List[str]:
    """Ports of wanted rules that the site's firewall does not accept, as far as its own listing shows."""
    by = front_end(state)
    if by == OWN_TABLE:
        return []
    found = (firewalld if by == FIREWALLD else ufw).closed(state["commands"], _rules(wanted))
    return list(dict.fromkeys(f"{row.protocol} {row.ports}" for row in found))


def problems(state: Mapping[str, Any], wanted: Rows) -> List[str]:
    """Why the rules cannot be put into effect by the site's firewall; clauses for a message."""
    commands, found = state["commands"], []
    by = front_end(state)
    if by == FIREWALLD and ufw.is_active(commands):
        found.append("firewalld and ufw are both active: disable one of them")
    if by != FIREWALLD and _starts(state["units"]["firewalld.service"]):
        found.append("firewalld is enabled, but does not run or answer: start it, or disable it")
    if commands["ufw"]["rc"] not in (0, NOT_INSTALLED):
        found.append(f"ufw does not answer: {commands['ufw']['stderr'].strip()}")
    if by == UFW:
        refused = ufw.refused(commands, _rules(wanted))
        found += [f"ufw has a rule of the site that refuses {row.text}: remove it, or the rule" for row in refused]
    return found


def unwanted(state: Mapping[str, Any], paths: Sequence[str]) -> List[Dict[str, str]]:
    """Entries for ddp.play.files that remove those of the files that are there."""
    return [{"path": path, "state": "absent"} for path in paths if state["files"][path]["type"] != "absent"]


def left(state: Mapping[str, Any]) -> List[str]:
    """What firewalld keeps of our rules after their removal: a policy ends only with a reload."""
    found = firewalld.has_policy(state["commands"]) if front_end(state) == FIREWALLD else False
    return [f"firewalld's policy {firewall_rule.OWN_NAME} without rules, until the next reload"] if found else []


def peer(hosts: Sequence[str], host: str) -> str:
    """The host that follows in the list, or the first after the last; empty without another host."""
    if host not in hosts or len(hosts) < 2:
        return ""
    return hosts[(list(hosts).index(host) + 1) % len(hosts)]


def address(found: Sequence[str], subnets: Sequence[str], otherwise: str) -> str:
    """The first address of a host that is in one of the subnets; `otherwise` if none is."""
    inside = [text for text in found if any(firewall_rule.covers(subnet, text) for subnet in subnets)]
    return inside[0] if inside else otherwise


def ssh_ports(ports: Sequence[int], connection: Any, sshd: str) -> List[int]:
    """Ports of SSH: the configured ones, the one of Ansible's connection, and those in the output of `sshd -T`."""
    known = [int(port) for port in ports]
    more = [int(port) for port in [*re.findall(r"(?m)^port (\d+)$", sshd), *([connection] if connection else [])]]
    return known + sorted(set(more) - set(known))


def _starts(unit: Mapping[str, Any]) -> bool:
    return bool(unit["active"] == "active" or unit["enabled"] == "enabled")


def _rules(wanted: Rows) -> List[Rule]:
    return [firewall_rule.rule(row["protocol"], row["ports"], row["source"]) for row in wanted]


class FilterModule:
    """The filters by the names that the role uses."""

    def filters(self) -> Dict[str, Callable[..., Any]]:
        """The filters by name, for Ansible."""
        return {
            "firewall_front_end": front_end,
            "firewall_rules": rules,
            "firewall_steps": steps,
            "firewall_closed": closed,
            "firewall_problems": problems,
            "firewall_unwanted": unwanted,
            "firewall_left": left,
            "firewall_ssh_ports": ssh_ports,
            "firewall_peer": peer,
            "firewall_address": address,
        }
