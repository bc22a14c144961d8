"""Hosts with the site's own firewall: the cluster's ports open in it, all else stays, and deprovision gives it back.

h1 has Debian's firewalld, h2 Debian's ufw, h3 asks for connections. Both have one port of the site open to all.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Lab, bare_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

GUARDED = {"h1": "firewalld", "h2": "ufw"}
PEER = "h3"
RENDEZVOUS, NFS, THEIRS, CLOSED = 29400, 2049, 8080, 8081
PORTS = (RENDEZVOUS, NFS, THEIRS, CLOSED)
OPEN = {"base_os_firewall": True, "base_os_firewall_extra": [{"port": str(NFS)}]}
# With what base_os needs: firewalld's start drops the rules by which the engine of the lab gives its containers names.
INSTALL = (
    "export DEBIAN_FRONTEND=noninteractive; apt-get -qq update && apt-get -qq install -y --no-install-recommends "
    "pciutils numactl ethtool python3-apt procps nftables"
)
# A rule of the site that only the running firewalld has: a reload would lose it.
RUNTIME = 'rule family="ipv4" source address="192.0.2.9" port port="8443" protocol="tcp" accept'
HISTORY = {
    "h1": f"{INSTALL} firewalld polkitd >/dev/null 2>&1 && systemctl enable --now firewalld"
    f" && firewall-cmd --permanent --add-port={THEIRS}/tcp && firewall-cmd --reload"
    f" && firewall-cmd --add-rich-rule='{RUNTIME}'",
    "h2": f"{INSTALL} ufw >/dev/null 2>&1 && ufw allow 22/tcp && ufw allow {THEIRS}/tcp comment site"
    " && ufw --force enable",
    PEER: "true",
}
LISTINGS = {
    "h1": "firewall-cmd --list-all-zones; firewall-cmd --list-all-policies; find /etc/firewalld -type f | sort | "
    "xargs sha256sum; firewall-cmd --permanent --list-all-zones | sha256sum",
    "h2": "ufw status verbose; ufw show added; find /etc/ufw /etc/default/ufw -type f | sort | xargs sha256sum; "
    "iptables-save | grep -v '^[#:]'; ip6tables-save | grep -v '^[#:]'",
}
LISTEN = "for port in {ports}; do systemd-run --quiet --collect python3 -m http.server $port; done".format(
    ports=" ".join(map(str, PORTS))
)
CONNECT = """
import socket
for port in {ports}:
    try:
        socket.create_connection(("{address}", port), 2).close()
        print(port)
    except OSError:
        pass
"""


@dataclass(frozen=True)
class Site:
    """The lab, the inventory with the site's variables, and what the firewalls had before the first provisioning."""

    lab: Lab
    inventory: Path
    before: dict[str, str]

    def play(self, verb: str, *words: str, **variables: Any) -> tuple[CompletedProcess[str], dict[str, Any]]:
        """A verb for base_os on the guarded hosts, with its report."""
        inventories = ("-i", str(self.lab.inventory), "-i", str(self.inventory))
        extra = ("-e", json.dumps({"base_os_time_sync": "none", **variables}))
        limit = ("--limit", ",".join(GUARDED), "--tags", "base_os", "--json")
        done = self.lab.play(verb, *inventories, *limit, *extra, *words, timeout_s=300)
        assert done.stdout, done.stderr
        return done, json.loads(done.stdout)

    def cells(self, verb: str, *words: str, **variables: Any) -> dict[str, dict[str, Any]]:
        """What became of each host of a verb that succeeded."""
        done, report = self.play(verb, *words, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return {cell["host"]: cell for cell in report["cells"]}

    def listing(self, host: str) -> str:
        """Everything that the host's firewall has, and its files."""
        return self.lab.on(host, LISTINGS[host], user="root")

    def open_ports(self, host: str) -> set[int]:
        """Which ports of a host the peer can connect to."""
        address = self.lab.on(host, "hostname -I", user="root").split()[0]
        script = CONNECT.format(ports=PORTS, address=address)
        return {int(line) for line in self.lab.on(PEER, f"python3 -c '{script}'").split()}


@pytest.fixture(scope="module")
def site(lab_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three hosts with their history, and a program that listens on each port."""
    with bare_lab(lab_home, "walls", 3) as lab, ThreadPoolExecutor() as pool:
        list(pool.map(lambda host: lab.on(host, HISTORY[host], user="root"), HISTORY))
        for host in GUARDED:
            lab.on(host, LISTEN, user="root")
        network = lab.on(PEER, "ip -4 -o route show scope link | cut -d' ' -f1", user="root").split()[0]
        inventory = tmp_path_factory.mktemp("site") / "walls.json"
        inventory.write_text(json.dumps({"all": {"vars": {"base_os_firewall_subnets": [network]}}}))
        found = Site(lab, inventory, {})
        # kernel settings and limits are there before, so that reports are about the firewalls only
        found.cells("provision")
        yield Site(lab, inventory, {host: found.listing(host) for host in GUARDED})


@pytest.mark.parametrize("verb", ["provision", "verify"])
def test_closed_ports_are_named_while_nothing_is_asked_for(site: Site, verb: str) -> None:
    cells = site.cells(verb)
    for host, front_end in GUARDED.items():
        assert f"{front_end} is active on {host}, and its rules do not open these ports" in cells[host]["pending"]
        assert "tcp 29400-29999" in cells[host]["pending"]
        assert "base_os_firewall: true opens them there" in cells[host]["pending"]
        assert cells[host]["num_changed"] == 0
        assert site.listing(host) == site.before[host]
        assert site.open_ports(host) == {THEIRS}


def test_the_check_names_the_rules_and_adds_none(site: Site) -> None:
    _, report = site.play("provision", "--check", **OPEN)
    for host, front_end in GUARDED.items():
        rows = [row for row in report["changes"] if row["host"] == host]
        assert {(row["kind"], row["whose"]) for row in rows} == {("add", "new")}
        texts = " ".join(row["what"] for row in rows)
        assert "firewall rule tcp 29400-29999 from" in texts
        assert f"({front_end})" in texts
        assert site.listing(host) == site.before[host]


def test_the_cluster_gets_through_and_the_rest_is_as_before(site: Site) -> None:
    """Also after a reload, which replaces the running rules of firewalld by the policy."""
    first = site.cells("provision", **OPEN)
    assert {host: cell["status"] for host, cell in first.items()} == dict.fromkeys(GUARDED, "changed")
    assert [site.open_ports(host) for host in GUARDED] == [{RENDEZVOUS, NFS, THEIRS}] * 2
    assert RUNTIME in site.listing("h1")
    again = site.cells("provision", **OPEN)
    assert {host: cell["num_changed"] for host, cell in again.items()} == dict.fromkeys(GUARDED, 0)
    assert site.cells("verify", **OPEN).keys() == GUARDED.keys()
    gone = set(site.before["h2"].splitlines()) - set(site.listing("h2").splitlines())
    assert {line.rpartition("/")[2] for line in gone} == {"user.rules"}


def test_a_rule_that_is_gone_is_reported_and_comes_back(site: Site) -> None:
    subnet = "$(ufw show added | grep -m1 ddp-play | cut -d' ' -f4)"
    site.lab.on("h2", f"ufw delete allow proto tcp from {subnet} to any port {NFS}", user="root")
    rule = f"$(firewall-cmd --list-rich-rules | grep -m1 'port=\"{NFS}\"')"
    site.lab.on("h1", f'firewall-cmd --remove-rich-rule="{rule}"', user="root")
    done, report = site.play("verify", **OPEN)
    assert done.returncode == 1
    for cell in report["cells"]:
        assert f"the rules of the cluster in {GUARDED[cell['host']]} are not as wanted" in cell["message"]
        assert "tcp 2049 from" in cell["message"]
    site.cells("provision", **OPEN)
    assert NFS in site.open_ports("h1") & site.open_ports("h2")


def test_a_connection_from_a_peer_shows_what_no_rule_tells(site: Site) -> None:
    """A table of nftables that the site wrote itself, which comes before firewalld's."""
    chain = "add table inet wall; add chain inet wall input { type filter hook input priority -9; }"
    drop = "add rule inet wall input tcp dport 29400-29999 drop"
    site.lab.on("h1", f"nft '{chain}; {drop}'", user="root")
    done, report = site.play("verify", **OPEN)
    site.lab.on("h1", "nft delete table inet wall", user="root")
    assert done.returncode == 1
    cells = {cell["host"]: cell for cell in report["cells"]}
    assert "h2 does not reach port 29" in cells["h1"]["message"]
    assert "although the rules are there" in cells["h1"]["message"]
    assert "a deny: nft list ruleset" in cells["h1"]["message"]
    assert cells["h2"]["status"] == "ok"


def test_deprovisioning_gives_the_firewall_back(site: Site) -> None:
    site.cells("deprovision", "--yes", **OPEN)
    for host in GUARDED:
        assert site.listing(host) == site.before[host]
        assert site.open_ports(host) == {THEIRS}


def test_the_policy_opens_the_ports_after_a_reload(site: Site) -> None:
    site.cells("provision", **OPEN)
    site.lab.on("h1", "firewall-cmd --reload", user="root")
    assert site.open_ports("h1") == {RENDEZVOUS, NFS, THEIRS}
    again = site.cells("provision", **OPEN)
    assert again["h1"]["num_changed"] == 0
    closed = site.cells("deprovision", "--yes", **OPEN)
    assert "policy ddp-play without rules" in closed["h1"]["left"]
    assert site.open_ports("h1") == {THEIRS}
    site.lab.on("h1", f"firewall-cmd --reload && firewall-cmd --add-rich-rule='{RUNTIME}'", user="root")
    assert site.listing("h1") == site.before["h1"]


def test_a_firewall_that_is_switched_on_later_replaces_our_table(site: Site) -> None:
    """Our table drops what the site opens, so it must not stay where the site's firewall has the rules."""
    site.lab.on("h2", "ufw disable", user="root")
    site.cells("provision", **OPEN)
    assert site.open_ports("h2") == {RENDEZVOUS, NFS}
    site.lab.on("h2", "systemctl disable ddp-firewall.service", user="root")
    _, report = site.play("verify", **OPEN)
    said = {cell["host"]: cell["message"] for cell in report["cells"] if cell["status"] == "failed"}
    assert "not running and enabled: ddp-firewall.service" in said["h2"]
    assert said.keys() == {"h2"}
    site.cells("provision", **OPEN)
    site.lab.on("h2", "ufw --force enable", user="root")
    site.cells("provision", **OPEN)
    assert site.open_ports("h2") == {RENDEZVOUS, NFS, THEIRS}
    ours = "nft list tables | grep ddp_play; find /etc -name 'ddp-firewall*' -o -name firewall.nft; true"
    assert site.lab.on("h2", ours, user="root") == ""
    site.cells("provision")  # switched off: our rules go from the firewall of the site
    assert {host: site.listing(host) for host in GUARDED} == site.before
