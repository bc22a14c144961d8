"""Firewall of a host: which program has the rules, what is missing, and why the rules cannot be there."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.ddp.play.plugins.filter import firewall

MISSING = {"rc": 127, "stdout": "", "stderr": "not installed"}
STOPPED = {"rc": 252, "stdout": "", "stderr": "FirewallD is not running"}
IDLE = {"active": "inactive", "enabled": "disabled"}
OURS = "ufw allow from 10.1.0.0/16 to any port 2049 proto tcp comment 'ddp-play'"
RICH = 'rule priority="29400" family="ipv4" source address="10.1.0.0/16" port port="2049" protocol="tcp" accept'


def said(stdout: str) -> dict[str, Any]:
    return {"rc": 0, "stdout": stdout, "stderr": ""}


def state(unit: Any = IDLE, **commands: Any) -> dict[str, Any]:
    """A host without a firewall, but for these answers."""
    names = ("firewalld_default", "firewalld_zones", "firewalld_policies", "ufw", "ufw_rules")
    return {"commands": {**dict.fromkeys(names, MISSING), **commands}, "units": {"firewalld.service": unit}}


def ufw(*rules: str, status: str = "active") -> dict[str, Any]:
    return {"ufw": said(f"Status: {status}"), "ufw_rules": said("\n".join(rules))}


def firewalld(*rules: str, policies: str = "") -> dict[str, Any]:
    zones = "\n".join(["public (active)", "  target: default", "  interfaces: eth0", *(f"\t{rule}" for rule in rules)])
    rows = {"firewalld_default": "public", "firewalld_zones": zones, "firewalld_policies": policies}
    return {name: said(text) for name, text in rows.items()}


WANTED = firewall.rules([], [], [{"port": "2049", "subnets": ["10.1.0.0/16"]}])
BARE = state()
ENABLED = {"active": "inactive", "enabled": "enabled"}


@pytest.mark.parametrize(
    ("host", "name", "kinds", "kinds_of_removal"),
    [
        (BARE, "nftables", [], []),
        (state(firewalld_zones=STOPPED), "nftables", [], []),
        (state(**ufw(status="inactive")), "nftables", [], []),
        (state(**ufw(OURS, status="inactive")), "nftables", [], ["remove"]),
        (state(**ufw()), "ufw", ["add"], []),
        (state(**ufw(OURS)), "ufw", [], ["remove"]),
        (state(**firewalld()), "firewalld", ["add"], []),
        (state(**firewalld(RICH)), "firewalld", [], ["remove"]),
        (state(**firewalld(RICH), **ufw(OURS, status="inactive")), "firewalld", [], ["remove", "remove"]),
    ],
)
def test_front_end_and_steps(host: dict[str, Any], name: str, kinds: list[str], kinds_of_removal: list[str]) -> None:
    assert firewall.front_end(host) == name
    assert [step["kind"] for step in firewall.steps(host, WANTED)] == kinds
    assert [step["kind"] for step in firewall.steps(host, [])] == kinds_of_removal


def test_rules_for_a_template() -> None:
    assert firewall.rules(["fd00::/8"], ["29400-29999"], [])[0] == {
        "protocol": "tcp",
        "ports": "29400-29999",
        "source": "fd00::/8",
        "is_ipv6": True,
    }
    assert firewall.rules([], ["29400-29999"], []) == []


@pytest.mark.parametrize("extra", [{"port": "nfs"}, {"port": "1", "subnets": ["10.1.0.0/33"]}])
def test_a_rule_that_is_none_names_the_variables(extra: dict[str, Any]) -> None:
    with pytest.raises(AnsibleFilterError, match="base_os_firewall_subnets or base_os_firewall_extra: "):
        firewall.rules(["10.0.0.0/8"], [], [extra])


@pytest.mark.parametrize(
    ("host", "closed"),
    [
        (BARE, []),
        (state(**ufw()), ["tcp 2049"]),
        (state(**ufw("ufw allow 2049/tcp")), []),
        (state(**firewalld()), ["tcp 2049"]),
    ],
)
def test_ports_that_the_site_closes(host: dict[str, Any], closed: list[str]) -> None:
    assert firewall.closed(host, WANTED) == closed


@pytest.mark.parametrize(
    ("host", "problems"),
    [
        (BARE, []),
        (state(**ufw()), []),
        (state(**firewalld()), []),
        (state(**ufw(), **firewalld()), ["firewalld and ufw are both active: disable one of them"]),
        (state(ENABLED), ["firewalld is enabled, but does not run or answer: start it, or disable it"]),
        (state(ufw={"rc": 1, "stdout": "", "stderr": "ERROR: iptables\n"}), ["ufw does not answer: ERROR: iptables"]),
        (
            state(**ufw("ufw deny from 10.1.0.0/16 to any port 2049 proto tcp")),
            ["ufw has a rule of the site that refuses tcp 2049 from 10.1.0.0/16: remove it, or the rule"],
        ),
    ],
)
def test_why_the_rules_cannot_be_there(host: dict[str, Any], problems: list[str]) -> None:
    assert firewall.problems(host, WANTED) == problems


def test_files_that_are_there_are_removed() -> None:
    host = {"files": {"/etc/a": {"type": "absent"}, "/etc/b": {"type": "file"}}}
    assert firewall.unwanted(host, ["/etc/a", "/etc/b"]) == [{"path": "/etc/b", "state": "absent"}]
    assert firewall.unwanted(host, []) == []


@pytest.mark.parametrize(
    ("host", "num_left"),
    [
        (BARE, 0),
        (state(**firewalld(RICH)), 0),
        (state(**firewalld(policies="ddp-play (active)\n  target: CONTINUE")), 1),
    ],
)
def test_what_firewalld_keeps_until_a_reload(host: dict[str, Any], num_left: int) -> None:
    assert len(firewall.left(host)) == num_left


@pytest.mark.parametrize(
    ("connection", "sshd", "ports"),
    [
        ("", "", [22]),
        (22, "port 22\n", [22]),
        ("2222", "", [22, 2222]),
        ("", "permitrootlogin no\nport 2201\nport 22\nx11displayoffset 10\n", [22, 2201]),
    ],
)
def test_ports_of_ssh(connection: Any, sshd: str, ports: list[int]) -> None:
    assert firewall.ssh_ports([22], connection, sshd) == ports


@pytest.mark.parametrize(
    ("hosts", "peer"), [([], ""), (["h1"], ""), (["h2", "h3"], ""), (["h1", "h2"], "h2"), (["h0", "h1"], "h0")]
)
def test_the_peer_of_a_host(hosts: list[str], peer: str) -> None:
    assert firewall.peer(hosts, "h1") == peer


@pytest.mark.parametrize(
    ("subnets", "address"),
    [(["10.1.0.0/16"], "10.1.0.2"), (["192.0.2.0/24", "fd00::/8"], "fd00::2"), ([], "h1.example")],
)
def test_the_address_that_the_cluster_uses(subnets: list[str], address: str) -> None:
    assert firewall.address(["172.17.0.1", "10.1.0.2", "fd00::2"], subnets, "h1.example") == address
    assert firewall.address([], subnets, "h1.example") == "h1.example"
