"""Rules of the cluster in firewalld: what its zones and policies have, and the calls of firewall-cmd that are missing.

The permanent rules are one policy of our own, /etc/firewalld/policies/ddp-play.xml. firewalld takes a new policy only
with a reload, which drops what the site or an engine added at run time. Until the next reload or boot, the same rules
are in the running zones. A priority that only our rules have marks them, and puts them after the site's own rules.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Sequence

from ansible_collections.ddp.play.plugins.plugin_utils.firewall_rule import (
    OWN_NAME,
    Rule,
    Steps,
    covers,
    ports_of,
    rule,
    step,
)

PRIORITY = 29400
RICH = re.compile(
    rf'rule priority="{PRIORITY}" family="ipv[46]" source address="([^"]+)" port port="([^"]+)" protocol="(\w+)" accept'
)
SERVICES = {"nfs": ["2049/tcp"]}  # of those that firewalld knows, the ones a cluster needs


@dataclass
class Section:
    """A zone or policy of `firewall-cmd --list-all-zones` or `--list-all-policies`."""

    name: str
    active: bool = False
    values: Dict[str, List[str]] = field(default_factory=dict)
    own_rules: List[Rule] = field(default_factory=list)

    @property
    def accepts_all(self) -> bool:
        """Whether the zone accepts what no rule of it rejects."""
        return self.values.get("target") == ["ACCEPT"]

    def opens(self, want: Rule) -> bool:
        """Whether the zone accepts this traffic by its target, its ports or a service."""
        texts = [*self.values.get("ports", [])]
        for service in self.values.get("services", []):
            texts += SERVICES.get(service, [])
        ports = [ports for ports, _, protocol in (text.partition("/") for text in texts) if protocol == want.protocol]
        return self.accepts_all or any(_within(want, text) for text in ports)


def _within(want: Rule, ports: str) -> bool:
    first, last = ports_of(ports)
    return bool(first <= want.first and want.last <= last)


def sections(text: str) -> List[Section]:
    """Zones or policies, which the text separates by lines that are not indented."""
    found: List[Section] = []
    for line in text.splitlines():
        head = re.fullmatch(r"(\S+)(?: \(([^)]*)\))?", line)
        if head:
            found.append(Section(head[1], "active" in (head[2] or "")))
        elif found and line.startswith("\t"):
            found[-1].own_rules += [rule(row[2], row[1], row[0]) for row in RICH.findall(line)]
        elif found and ":" in line:
            name, _, value = line.strip().partition(":")
            found[-1].values[name] = value.split()
    return found


def rich_rule(want: Rule) -> str:
    """The rule as firewalld prints it."""
    family = "ipv6" if want.is_ipv6 else "ipv4"
    source = f'family="{family}" source address="{want.source}"'
    return f'rule priority="{PRIORITY}" {source} port port="{want.ports}" protocol="{want.protocol}" accept'


def has_policy(commands: Mapping[str, Any]) -> bool:
    """Whether the running firewalld has our policy."""
    return any(found.name == OWN_NAME for found in sections(commands["firewalld_policies"]["stdout"]))


def steps(commands: Mapping[str, Any], wanted: Sequence[Rule]) -> Steps:
    """Calls of firewall-cmd after which the running firewall has exactly these rules of ours, additions first."""
    zones = sections(commands["firewalld_zones"]["stdout"])
    policy = [found for found in sections(commands["firewalld_policies"]["stdout"]) if found.name == OWN_NAME]
    default = commands["firewalld_default"]["stdout"]
    rows: Steps = []
    for zone in zones:
        there = (zone.active or zone.name == default) and not zone.accepts_all and not policy
        rows += _changes(f"--zone={zone.name}", zone.own_rules, wanted if there else [])
    for found in policy:
        rows += _changes(f"--policy={found.name}", found.own_rules, wanted)
    return sorted(rows, key=lambda row: str(row["kind"]))


def _changes(target: str, there: Sequence[Rule], wanted: Sequence[Rule]) -> Steps:
    differences = {
        "add": [want for want in wanted if want not in there],
        "remove": [found for found in there if found not in wanted],
    }
    return [
        step(
            kind,
            ["firewall-cmd", target, *(f"--{kind}-rich-rule={rich_rule(row)}" for row in rules)],
            rules,
            "firewalld",
        )
        for kind, rules in differences.items()
        if rules
    ]


def closed(commands: Mapping[str, Any], wanted: Sequence[Rule]) -> List[Rule]:
    """Rules whose traffic no port, service or target of the zone accepts into which their source falls."""
    zones = sections(commands["firewalld_zones"]["stdout"])
    default = commands["firewalld_default"]["stdout"]
    return [want for want in wanted if not all(zone.opens(want) for zone in _zones_of(want, zones, default))]


def _zones_of(want: Rule, zones: Sequence[Section], default: str) -> List[Section]:
    """The zone that has the source, or else every zone in which a connection of the cluster may arrive."""
    bound = [zone for zone in zones if any(covers(text, want.source) for text in zone.values.get("sources", []))]
    return bound or [zone for zone in zones if zone.values.get("interfaces") or zone.name == default]
