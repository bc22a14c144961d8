"""Rules of the cluster in ufw: what is added and deleted, what the site refuses, what is closed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.plugin_utils import ufw
from ansible_collections.ddp.play.plugins.plugin_utils.firewall_rule import Rule

NFS = Rule("tcp", 2049, 2049, "10.1.0.0/16")
RANKS = Rule("tcp", 29400, 29999, "fd00::/8")
HEAD = "Added user rules (see 'ufw status' for running firewall):"
NFS_LINE = "ufw allow from 10.1.0.0/16 to any port 2049 proto tcp"
OURS = f"{NFS_LINE} comment 'ddp-play'"
RANKS_LINE = "ufw allow from fd00::/8 to any port 29400:29999 proto tcp comment 'ddp-play'"
ADD_RANKS = "ufw allow proto tcp from fd00::/8 to any port 29400:29999 comment ddp-play"
ADD_NFS = "ufw allow proto tcp from 10.1.0.0/16 to any port 2049 comment ddp-play"
DELETE_NFS = "ufw delete allow proto tcp from 10.1.0.0/16 to any port 2049"


def commands(*lines: str, status: str = "active", incoming: str = "deny") -> dict[str, Any]:
    text = f"Status: {status}\nLogging: on (low)\nDefault: {incoming} (incoming), allow (outgoing), disabled (routed)"
    return {
        "ufw": {"rc": 0, "stdout": text},
        "ufw_rules": {"rc": 0, "stdout": "\n".join([HEAD, *(lines or ["(None)"])])},
    }


@pytest.mark.parametrize(
    ("host", "active"),
    [
        (commands(), True),
        (commands(status="inactive"), False),
        ({"ufw": {"rc": 127, "stdout": ""}}, False),
    ],
)
def test_activity(host: dict[str, Any], active: bool) -> None:
    assert ufw.is_active(host) is active


@pytest.mark.parametrize(
    ("lines", "wanted", "calls"),
    [
        ([], [], []),
        (["ufw allow 22/tcp", OURS, RANKS_LINE], [NFS, RANKS], []),
        (["ufw allow 22/tcp"], [NFS, RANKS], [ADD_NFS, ADD_RANKS]),
        ([OURS], [RANKS], [ADD_RANKS, DELETE_NFS]),
        ([OURS, "ufw allow 22/tcp comment 'theirs'"], [], [DELETE_NFS]),
        # theirs for the same traffic would be replaced, and is enough
        ([NFS_LINE], [NFS], []),
        ([f"{NFS_LINE} comment 'nfs of the site'"], [NFS], []),
        # another interface, address or direction is another rule
        (["ufw allow in on eth0 from 10.1.0.0/16 to any port 2049 proto tcp"], [NFS], [ADD_NFS]),
        (["ufw allow from 10.1.0.0/16 to 10.1.0.1 port 2049 proto tcp"], [NFS], [ADD_NFS]),
        (["ufw route allow from 10.1.0.0/16 to any port 2049 proto tcp", "ufw allow 'Nginx Full'"], [NFS], [ADD_NFS]),
    ],
)
def test_calls_of_ufw(lines: list[str], wanted: list[Rule], calls: list[str]) -> None:
    assert [" ".join(row["argv"]) for row in ufw.steps(commands(*lines), wanted)] == calls


@pytest.mark.parametrize(
    ("want", "line", "call"),
    [
        (
            Rule("tcp", 9100, 9100, "10.9.0.5/32"),
            "ufw allow from 10.9.0.5 to any port 9100 proto tcp comment 'ddp-play'",
            "ufw allow proto tcp from 10.9.0.5/32 to any port 9100 comment ddp-play",
        ),
        (
            Rule("udp", 4791, 4791, "0.0.0.0/0"),
            "ufw allow 4791/udp comment 'ddp-play'",
            "ufw allow proto udp from 0.0.0.0/0 to any port 4791 comment ddp-play",
        ),
    ],
)
def test_a_rule_is_found_in_the_form_of_ufw(want: Rule, line: str, call: str) -> None:
    assert [" ".join(row["argv"]) for row in ufw.steps(commands(), [want])] == [call]
    assert ufw.steps(commands(line), [want]) == []
    (gone,) = ufw.steps(commands(line), [])
    assert gone["kind"] == "remove"
    assert ufw.added(line)[0].source in gone["argv"]


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("ufw deny from 10.1.0.0/16 to any port 2049 proto tcp", [NFS]),
        ("ufw reject log from 10.1.0.0/16 to any port 2049 proto tcp", [NFS]),
        ("ufw limit from 10.1.0.0/16 to any port 2049 proto tcp", []),
        (OURS, []),
        ("ufw deny 2049/tcp", []),
    ],
)
def test_a_rule_of_the_site_that_would_be_replaced(line: str, refused: list[Rule]) -> None:
    assert ufw.refused(commands(line), [NFS, RANKS]) == refused


@pytest.mark.parametrize(
    ("host", "closed"),
    [
        (commands(), [NFS, RANKS]),
        (commands(incoming="allow"), []),
        (commands("ufw allow from 10.0.0.0/8"), [RANKS]),
        (commands("ufw allow from fd00::/8 to any port 20000:30000 proto tcp"), [NFS]),
        (commands("ufw allow 2049"), [RANKS]),
        (commands("ufw allow 2049/udp", "ufw deny from 10.0.0.0/8"), [NFS, RANKS]),
        (commands("ufw allow 111,2049/tcp", "ufw allow from 10.0.0.0/8 port 53"), [RANKS]),
        # ours go when they are not wanted
        (commands(OURS, RANKS_LINE), [NFS, RANKS]),
    ],
)
def test_ports_that_are_closed(host: dict[str, Any], closed: list[Rule]) -> None:
    assert ufw.closed(host, [NFS, RANKS]) == closed
