"""Remedies for hosts of a lab: the failure is on h2 and h3 in most cases, and what the message says mends both."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .conftest import Lab
from .rank_jobs import SLIM, job

KEPT = "ddp-play-rank:kept"


@dataclass(frozen=True)
class Case:
    """`ill` is done by root on the hosts `on`. `remedy` is a pattern of the message; without `mend`, its command."""

    ill: str
    code: int
    says: str
    remedy: str
    variables: dict[str, Any] = field(default_factory=dict)
    mend: str = ""  # what root does on the hosts where the message asks for it
    on: tuple[str, ...] = ("h2", "h3")
    well: str = ""  # whatever happened, done on all hosts at the end
    hosts: dict[str, dict[str, Any]] = field(default_factory=dict)  # variables of hosts
    again: dict[str, Any] | None = None  # the corrected variables of the job, where the message asks for that
    right: dict[str, dict[str, Any]] | None = None  # the corrected variables of hosts


CASES = {
    "an image that hosts lack": Case(
        f"docker tag {SLIM} {KEPT}; docker rmi {SLIM}",
        69,
        f"h2, h3: image {SLIM} is missing and ddp_job_image_pull is never",
        rf"ddp-play image load -i \S+ --limit h2,h3 --image {SLIM}",
        {"image_pull": "never"},
    ),
    "an image that no registry has": Case(
        f"docker tag {SLIM} {KEPT}; docker rmi {SLIM}",
        69,
        f"cannot pull {SLIM}",
        rf"ddp-play image load -i \S+ --limit h2,h3 --image {SLIM}",
    ),
    "an engine that is stopped": Case(
        "systemctl stop docker.socket docker.service",
        69,
        "h2, h3: no Docker engine answers on",
        r"ddp-play provision -i \S+ --limit h2,h3 --tags docker_engine",
    ),
    "a user outside group docker": Case(
        "gpasswd -d ops docker",
        69,
        "h2, h3: no permission on",
        r"ddp-play provision -i \S+ --limit h2,h3 --tags docker_engine -e '[^']+'",
    ),
    "the source of a mount": Case(
        "rm -rf /srv/remedy-data",
        69,
        "bind source path does not exist: /srv/remedy-data",
        "make /srv/remedy-data on h1,h2,h3",
        {"mounts": ["/srv/remedy-data:/data"]},
        mend="mkdir -p /srv/remedy-data",
        on=("h1", "h2", "h3"),
        well="rm -rf /srv/remedy-data",
    ),
    "an account that has expired": Case(
        "chage -E 0 ops",
        69,
        "h2, h3: the account ops has expired there",
        "as root on h2,h3: chage -E -1 ops",
        mend="chage -E -1 ops",
        well="chage -E -1 ops",
    ),
    "hosts that are about to reboot": Case(
        "echo 'System is going down. Unprivileged users are not permitted to log in anymore.' > /run/nologin",
        69,
        "h2, h3: the host takes no logins now",
        "as root on h2,h3: rm /run/nologin",
        mend="rm /run/nologin",
        well="rm -f /run/nologin",
    ),
    "hosts without Python": Case(
        "chmod a-x /usr/bin/python3.11",
        69,
        "h2, h3: ",
        "install Python 3.9 or newer on h2,h3",
        mend="chmod a+x /usr/bin/python3.11",
        well="chmod a+x /usr/bin/python3.11",
    ),
    "a full disk of the state of runs": Case(
        "d=/home/ops/.local/state/ddp-play; mkdir -p $d; chown -R ops: /home/ops/.local;"
        " mount -t tmpfs -o size=64k tmpfs $d; chown ops: $d; head -c 65536 /dev/zero > $d/full",
        69,
        "h2, h3: uid 1000 cannot keep the files of ddp-play in ... No space left on device",
        "free some space on h2,h3: df -h there",
        mend="umount /home/ops/.local/state/ddp-play",
        well="umount /home/ops/.local/state/ddp-play",
    ),
    "a network that no host has": Case(
        "true",
        69,
        "h1: no usable interface in 10.99.0.0/24...h2: no usable interface...h3: no usable interface",
        "set ddp_job_network to a network of these hosts, or remove it",
        {"network": "10.99.0.0/24"},
        again={},
    ),
    "an interface in another network": Case(
        "ip link add other0 type bridge; ip address add 10.98.$(hostname | tr -d h).1/24 dev other0;"
        " ip link set other0 up",
        69,
        "the hosts have no subnet in common:",
        "set ddp_interface",
        hosts={host: {"ddp_interface": "other0"} for host in ("h2", "h3")},
        right={host: {"ddp_interface": "eth0"} for host in ("h2", "h3")},
        well="ip link delete other0",
    ),
    "a firewall on the rendezvous port": Case(
        "iptables -I INPUT -p tcp --dport 29870:29879 -j DROP",
        69,
        "does not reach h1 (...rendezvous port",
        "check the firewalls between them",
        {"port_range": "29870-29879"},
        mend="iptables -D INPUT -p tcp --dport 29870:29879 -j DROP",
        on=("h1",),
        well="iptables -D INPUT -p tcp --dport 29870:29879 -j DROP",
    ),
}
WELL = f"systemctl start docker.service; usermod -aG docker ops; docker tag {KEPT} {SLIM}; docker rmi {KEPT}"


@pytest.mark.usefixtures("clean_hosts")
@pytest.mark.parametrize("name", CASES)
def test_what_the_message_says_mends_all_hosts(lab3: Lab, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    words = ["run", job(tmp_path, {"command": ["true"], **case.variables}), "-i", str(lab3.inventory)]
    words += ["-i", more_variables(tmp_path, case.hosts)] if case.hosts else []
    try:
        forget_logins(lab3)
        for host in case.on:
            lab3.on(host, case.ill, user="root")
        forget_logins(lab3)
        failed = lab3.play(*words)
        assert failed.returncode == case.code, failed.stderr
        assert re.search(".*?".join(map(re.escape, case.says.split("..."))), failed.stderr, re.DOTALL), failed.stderr
        told = re.search(case.remedy, failed.stderr)
        assert told, failed.stderr
        mend(lab3, tmp_path, case, told[0])
        done = lab3.play(*words)
        assert done.returncode == 0, done.stderr
    finally:
        for host in ("h1", "h2", "h3"):
            lab3.on(host, f"({case.well or 'true'}; {WELL}) >/dev/null 2>&1; true", user="root")


def mend(lab: Lab, tmp_path: Path, case: Case, told: str) -> None:
    """Do what the message says: edit the job or the inventory, act on the hosts, or copy its command."""
    if case.again is not None:
        job(tmp_path, {"command": ["true"], **case.again})
    elif case.right is not None:
        more_variables(tmp_path, case.right)
    elif case.mend:
        for host in case.on:
            lab.on(host, case.mend, user="root")
    else:
        mended = shell(lab, told)
        assert mended.returncode == 0, (told, mended.stdout, mended.stderr)


def more_variables(tmp_path: Path, hosts: dict[str, dict[str, Any]]) -> str:
    """An inventory with variables of hosts, in addition to that of the lab."""
    path = tmp_path / "more.json"
    path.write_text(json.dumps({"ranks": {"hosts": hosts}}))
    return str(path)


@pytest.mark.usefixtures("clean_hosts")
def test_a_full_disk_of_the_engine(lab3: Lab) -> None:
    """An image does not fit; both hosts are named with what is full, and get it when there is room."""
    words = ["image", "load", "-i", str(lab3.inventory), "--limit", "h2,h3", "--image", SLIM]
    stop, start = "systemctl stop docker.socket docker.service", "systemctl start docker.service"
    try:
        for host in ("h2", "h3"):
            lab3.on(host, f"{stop}; mount -t tmpfs -o size=16m tmpfs /var/lib/docker; {start}", user="root")
        failed = lab3.play(*words)
        assert failed.returncode == 69, failed.stderr
        assert "did not reach 2 hosts" in failed.stderr
        assert "h2, h3: " in failed.stderr
        assert "no space left on device" in failed.stderr
        assert "docker system df" in failed.stderr
    finally:
        for host in ("h2", "h3"):
            lab3.on(host, f"{stop}; umount /var/lib/docker; {start}", user="root")
    assert lab3.play(*words).returncode == 0


def forget_logins(lab: Lab) -> None:
    """End the connections that are open: a login has the groups that its user had when it began."""
    for host in ("h2", "h3"):
        lab.on(host, "pkill -u ops sshd; true", user="root")


def shell(lab: Lab, command: str) -> subprocess.CompletedProcess[str]:
    """A command of a message, as the user's shell runs it."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command], env={**lab.environment, "PATH": path}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True, check=False, timeout=400,
    )  # fmt: skip
