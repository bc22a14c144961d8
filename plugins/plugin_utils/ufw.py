"""Rules of the cluster in ufw: what `ufw show added` prints, and the calls of ufw that are missing.

Our rules have the comment ddp-play. ufw takes two rules for one if they differ only in action, logging or comment, so a
rule of the site for the same traffic is never added again: that would replace it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, List, Mapping, Sequence, Tuple

from ansible_collections.ddp.play.plugins.plugin_utils.firewall_rule import (
    OWN_NAME,
    Rule,
    Steps,
    covers,
    ports_of,
    step,
)

LINE = re.compile(
    r"ufw (?P<action>\w+)(?: log(?:-all)?)?"
    r"(?: (?P<short>[\d:,]+)(?:/(?P<transport>\w+))?|"
    r"(?: from (?P<source>\S+))?(?: to any(?: port (?P<ports>[\d:,]+))?)?(?: proto (?P<protocol>\w+))?)"
    r"(?: comment '(?P<comment>.*)')?"
)
EVERYWHERE = ("0.0.0.0/0", "::/0")
Key = Tuple[str, str, str]


@dataclass(frozen=True)
class Added:
    """A rule of ufw for incoming traffic to any address of the host. Empty protocol or ports: all."""

    action: str
    protocol: str
    ports: str
    source: str
    comment: str

    @property
    def key(self) -> Key:
        """By which ufw takes two rules for one."""
        return self.protocol, self.ports, self.source

    def opens(self, want: Rule) -> bool:
        """Whether the rule accepts all of this traffic."""
        by_source = self.source == "any" or covers(self.source, want.source)
        by_protocol = self.protocol in ("", want.protocol)
        ranges = [ports_of(text) for text in self.ports.split(",") if text]
        by_port = not ranges or any(first <= want.first and want.last <= last for first, last in ranges)
        return self.action in ("allow", "limit") and by_source and by_protocol and by_port


def is_active(commands: Mapping[str, Any]) -> bool:
    """Whether ufw filters, after `ufw status verbose`."""
    return commands["ufw"]["rc"] == 0 and "Status: active" in commands["ufw"]["stdout"].splitlines()


def added(text: str) -> List[Added]:
    """Rules of `ufw show added` in its order, without those for one interface, of a profile, or outgoing."""
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    return [
        Added(
            row["action"],
            row["protocol"] or row["transport"] or "",
            row["ports"] or row["short"] or "",
            row["source"] or "any",
            row["comment"] or "",
        )
        for row in found
        if row
    ]


def key_of(want: Rule) -> Key:
    """The rule as ufw has it: ports with a colon, a single host without a length, no network for all addresses."""
    network = ip_network(want.source)
    host = str(network.network_address) if network.num_addresses == 1 else want.source
    return want.protocol, want.ports.replace("-", ":"), "any" if want.source in EVERYWHERE else host


def steps(commands: Mapping[str, Any], wanted: Sequence[Rule]) -> Steps:
    """Calls of ufw after which it has these rules with our comment, and no others with it; additions first."""
    there = added(commands["ufw_rules"]["stdout"])
    ours = {row.key: row for row in there if row.comment == OWN_NAME}
    theirs = {row.key for row in there if row.comment != OWN_NAME}
    keys = {key_of(want): want for want in wanted}
    rows = [
        step("add", ["ufw", *_words(key, want.source), "comment", OWN_NAME], [want], "ufw")
        for key, want in keys.items()
        if key not in ours and key not in theirs
    ]
    gone = [(key, _rule_of(row)) for key, row in ours.items() if key not in keys]
    return rows + [step("remove", ["ufw", "delete", *_words(key, key[2])], [row], "ufw") for key, row in gone]


def _words(key: Key, source: str) -> List[str]:
    return ["allow", "proto", key[0], "from", source, "to", "any", "port", key[1]]


def _rule_of(row: Added) -> Rule:
    return Rule(row.protocol, *ports_of(row.ports), row.source)


def refused(commands: Mapping[str, Any], wanted: Sequence[Rule]) -> List[Rule]:
    """Rules for whose traffic the site has a rule that does not accept it."""
    there = {row.key: row.action for row in added(commands["ufw_rules"]["stdout"])}
    return [want for want in wanted if there.get(key_of(want), "allow") not in ("allow", "limit")]


def closed(commands: Mapping[str, Any], wanted: Sequence[Rule]) -> List[Rule]:
    """Rules whose traffic neither a rule of the site in ufw accepts nor its default."""
    if "Default: allow (incoming)" in commands["ufw"]["stdout"]:
        return []
    there = [row for row in added(commands["ufw_rules"]["stdout"]) if row.comment != OWN_NAME]
    return [want for want in wanted if not any(row.opens(want) for row in there)]
