"""Rules of the cluster: ports, networks, and which network has all addresses of another."""

from __future__ import annotations

import pytest
from ansible_collections.ddp.play.plugins.plugin_utils import firewall_rule
from ansible_collections.ddp.play.plugins.plugin_utils.firewall_rule import Rule


@pytest.mark.parametrize(
    ("text", "ports"), [("2049", (2049, 2049)), ("29400-29999", (29400, 29999)), ("29400:29999", (29400, 29999))]
)
def test_ports(text: str, ports: tuple[int, int]) -> None:
    assert firewall_rule.ports_of(text) == ports


@pytest.mark.parametrize("text", ["", "nfs", "0", "65536", "20-10", "1-2-3", "1,2"])
def test_what_is_no_port(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        firewall_rule.ports_of(text)


@pytest.mark.parametrize(
    ("subnets", "extra", "texts"),
    [
        ([], [], []),
        (
            ["10.1.0.0/16"],
            [{"port": "2049"}, {"port": 9100, "subnets": ["10.9.0.5"]}],
            [
                "tcp 29400-29999 from 10.1.0.0/16",
                "udp 4791 from 10.1.0.0/16",
                "tcp 2049 from 10.1.0.0/16",
                "tcp 9100 from 10.9.0.5/32",
            ],
        ),
        (
            ["10.1.7.0/16", "10.1.0.0/16", "FD00::/8"],
            [{"port": "53", "protocol": "udp", "subnets": []}],
            [
                "tcp 29400-29999 from 10.1.0.0/16",
                "tcp 29400-29999 from fd00::/8",
                "udp 4791 from 10.1.0.0/16",
                "udp 4791 from fd00::/8",
            ],
        ),
    ],
)
def test_wanted_rules(subnets: list[str], extra: list[dict[str, object]], texts: list[str]) -> None:
    found = firewall_rule.wanted_rules(subnets, ["29400-29999"], extra)
    assert [row.text for row in found] == texts
    assert [row.is_ipv6 for row in found] == ["::" in text for text in texts]


@pytest.mark.parametrize(
    ("network", "source", "covered"),
    [
        ("10.0.0.0/8", "10.1.0.0/16", True),
        ("10.1.0.0/16", "10.1.0.0/16", True),
        ("10.1.0.0/16", "10.0.0.0/8", False),
        ("::/0", "10.1.0.0/16", False),
        ("52:54:00:12:34:56", "10.1.0.0/16", False),
        ("ipset:peers", "10.1.0.0/16", False),
    ],
)
def test_a_network_in_another(network: str, source: str, covered: bool) -> None:
    assert firewall_rule.covers(network, source) is covered


def test_a_step_names_its_rules_and_the_front_end() -> None:
    found = firewall_rule.step("add", ["ufw"], [Rule("tcp", 2049, 2049, "10.0.0.0/8")], "ufw")
    assert found == {"kind": "add", "argv": ["ufw"], "what": ["tcp 2049 from 10.0.0.0/8 (ufw)"]}
