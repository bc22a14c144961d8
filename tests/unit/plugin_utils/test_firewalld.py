"""Rules of the cluster in firewalld: what is added to zones or the policy, what is removed, what is closed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.plugin_utils import firewalld
from ansible_collections.ddp.play.plugins.plugin_utils.firewall_rule import Rule

NFS = Rule("tcp", 2049, 2049, "10.1.0.0/16")
RANKS = Rule("tcp", 29400, 29999, "fd00::/8")
NFS_TEXT = 'rule priority="29400" family="ipv4" source address="10.1.0.0/16" port port="2049" protocol="tcp" accept'
RANKS_TEXT = (
    'rule priority="29400" family="ipv6" source address="fd00::/8" port port="29400-29999" protocol="tcp" accept'
)
THEIRS = 'rule family="ipv4" source address="10.1.0.0/16" port port="8080" protocol="tcp" accept'
ADD = "--add-rich-rule="
REMOVE = "--remove-rich-rule="


def section(head: str, *rules: str, **values: str) -> str:
    """A zone or policy as firewall-cmd prints it."""
    lines = [head, *(f"  {name}: {value}" for name, value in {"target": "default", **values}.items())]
    return "\n".join([*lines, "  rich rules: ", *(f"\t{rule}" for rule in rules)])


def commands(*zones: str, default: str = "public", policy: str = "") -> dict[str, Any]:
    host_ipv6 = section("allow-host-ipv6 (active)", 'rule family="ipv6" icmp-type name="router-solicitation" accept')
    return {
        "firewalld_default": {"stdout": default},
        "firewalld_zones": {"stdout": "\n\n".join(zones)},
        "firewalld_policies": {"stdout": "\n\n".join([host_ipv6, policy])},
    }


OTHERS = (section("block", target="%%REJECT%%"), section("docker (active)", interfaces="docker0", target="ACCEPT"))


@pytest.mark.parametrize(
    ("host", "wanted", "calls"),
    [
        # nothing is there, nothing is wanted
        (commands(section("public (active)", THEIRS), *OTHERS), [], []),
        # all is there
        (commands(section("public (active)", THEIRS, NFS_TEXT), *OTHERS), [NFS], []),
        (commands(section("public"), *OTHERS), [NFS], [("--zone=public", ADD + NFS_TEXT)]),
        (
            commands(section("public (default, active)", THEIRS), section("work (active)", NFS_TEXT), *OTHERS),
            [NFS, RANKS],
            [("--zone=public", ADD + NFS_TEXT, ADD + RANKS_TEXT), ("--zone=work", ADD + RANKS_TEXT)],
        ),
        # another rule is no longer wanted, and additions come first
        (
            commands(section("public (active)", THEIRS, NFS_TEXT)),
            [RANKS],
            [("--zone=public", ADD + RANKS_TEXT), ("--zone=public", REMOVE + NFS_TEXT)],
        ),
        (commands(section("public (active)", THEIRS, NFS_TEXT)), [], [("--zone=public", REMOVE + NFS_TEXT)]),
        # the interface went to another zone
        (
            commands(section("public", NFS_TEXT), section("work (active)"), default="work"),
            [NFS],
            [("--zone=work", ADD + NFS_TEXT), ("--zone=public", REMOVE + NFS_TEXT)],
        ),
        # after a reload the policy has the rules
        (commands(section("public (active)"), policy=section("ddp-play (active)", NFS_TEXT)), [NFS], []),
        (
            commands(section("public (active)", NFS_TEXT), policy=section("ddp-play (active)", NFS_TEXT)),
            [NFS, RANKS],
            [("--policy=ddp-play", ADD + RANKS_TEXT), ("--zone=public", REMOVE + NFS_TEXT)],
        ),
        (
            commands(section("public (active)"), policy=section("ddp-play (active)", NFS_TEXT)),
            [],
            [("--policy=ddp-play", REMOVE + NFS_TEXT)],
        ),
    ],
)
def test_calls_of_firewall_cmd(host: dict[str, Any], wanted: list[Rule], calls: list[tuple[str, ...]]) -> None:
    assert [row["argv"] for row in firewalld.steps(host, wanted)] == [["firewall-cmd", *call] for call in calls]


def test_a_policy_is_found() -> None:
    assert not firewalld.has_policy(commands(section("public")))
    assert firewalld.has_policy(commands(section("public"), policy=section("ddp-play (active)")))


@pytest.mark.parametrize(
    ("zones", "closed"),
    [
        ((section("public (active)", interfaces="eth0", services="ssh dhcpv6-client", ports=""),), [NFS, RANKS]),
        ((section("public (active)", interfaces="eth0", services="nfs ssh"),), [RANKS]),
        ((section("public (active)", interfaces="eth0", ports="2000-3000/tcp 29400-29999/udp"),), [RANKS]),
        ((section("public (active)", interfaces="eth0", target="ACCEPT"), *OTHERS), []),
        # by its source a connection falls into another zone
        ((section("public"), section("trusted (active)", sources="10.0.0.0/8 ipset:peers", target="ACCEPT")), [RANKS]),
        # one of the two interfaces is closed
        (
            (
                section("public (active)", interfaces="eth0", ports="2049/tcp 29400-29999/tcp"),
                section("work (active)", interfaces="eth1", ports="2049/tcp"),
            ),
            [RANKS],
        ),
    ],
)
def test_ports_that_are_closed(zones: tuple[str, ...], closed: list[Rule]) -> None:
    assert firewalld.closed(commands(*zones), [NFS, RANKS]) == closed
    assert firewalld.closed(commands(*zones), []) == []
