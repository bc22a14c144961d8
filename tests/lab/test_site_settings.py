"""Settings of a site that provisioning has to know: the port of its sshd, and the domain of its NFSv4 names."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Lab, bare_lab

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = "h1"
PORT = 2222
SSHD = f"printf 'Port 22\\nPort {PORT}\\n' > /etc/ssh/sshd_config.d/port.conf && systemctl restart ssh"
# A kernel without an NFS server suffices: a program of that name prints the exports, and a unit of that name runs.
SERVER = (
    "export DEBIAN_FRONTEND=noninteractive; apt-get -qq update; "
    "apt-get -qq install -y --no-install-recommends nfs-common >/dev/null 2>&1; "
    "echo '[General]\nDomain = site.example' > /etc/idmapd.conf; "
    "printf '#!/bin/sh\\ncat /etc/exports.d/*.exports\\n' > /usr/local/sbin/exportfs; "
    "chmod +x /usr/local/sbin/exportfs; "
    "printf '[Service]\\nExecStart=/bin/sleep infinity\\n[Install]\\nWantedBy=multi-user.target\\n' "
    "> /etc/systemd/system/nfs-server.service; systemctl daemon-reload; systemctl enable --now nfs-server.service"
)
HIDDEN = {"__nfs_server_kernel": True, "__nfs_server_to_install": [], "__nfs_server_threads_wanted": ""}
EXPORTS = [{"path": "/srv/runs", "clients": ["10.0.0.0/8"]}]


@pytest.fixture(scope="module")
def lab(lab_home: Path) -> Iterator[Lab]:
    with bare_lab(lab_home, "settings", 1) as made:
        yield made


def play(lab: Lab, folder: Path, verb: str, role: str, **variables: Any) -> dict[str, Any]:
    """The cell of the host after a verb that succeeded, reached over the other port."""
    site = folder / "site.json"
    groups = {"nfs_server": {"hosts": {HOST: None}}} if role == "nfs_server" else {}
    site.write_text(json.dumps({"all": {"hosts": {HOST: {"ansible_port": PORT}}, "children": groups}}))
    words = ("-i", str(lab.inventory), "-i", str(site), "--limit", HOST, "--tags", role, "--json")
    done = lab.play(verb, *words, "-e", json.dumps(variables), timeout_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (cell,) = [cell for cell in json.loads(done.stdout)["cells"] if cell["role"] == role]
    return dict(cell)


def test_the_firewall_leaves_the_port_open_over_which_ansible_came(lab: Lab, tmp_path: Path) -> None:
    """base_os_firewall_ssh_ports names port 22 only; the host would be lost with the first new connection."""
    address = lab.on(HOST, "hostname -I").split()[0]
    lab.on(HOST, SSHD, user="root")
    wanted = {"base_os_firewall": True, "base_os_firewall_subnets": ["192.0.2.0/24"], "base_os_time_sync": "none"}
    assert play(lab, tmp_path, "provision", "base_os", **wanted)["status"] == "changed"
    with socket.create_connection((address, PORT), timeout=10) as connection:
        assert connection.recv(20).startswith(b"SSH-2.0")


@pytest.mark.long
def test_the_domain_of_nfs_names_is_the_one_that_the_host_uses(lab: Lab, tmp_path: Path) -> None:
    """nfsidmap reads idmapd.conf and idmapd.conf.d, not nfs.conf; an empty domain gives back the site's."""
    lab.on(HOST, SSHD, user="root")
    lab.on(HOST, SERVER, user="root")
    for domain, used in (("cluster.example", "cluster.example"), ("", "site.example")):
        wanted = {"nfs_server_exports": EXPORTS, "nfs_server_idmap_domain": domain, **HIDDEN}
        assert play(lab, tmp_path, "provision", "nfs_server", **wanted)["status"] == "changed"
        assert lab.on(HOST, "/usr/sbin/nfsidmap -d", user="root") == used
        assert play(lab, tmp_path, "provision", "nfs_server", **wanted)["num_changed"] == 0
