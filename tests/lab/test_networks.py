"""Two networks between the same hosts: the fast one is chosen, and one that does not carry is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import Lab


@pytest.fixture(scope="module")
def two_nets(lab_home: Path) -> Iterator[Lab]:
    """Two hosts on a slow management network (eth0, where SSH is) and a fast one (eth1)."""
    lab = Lab(f"nets-{os.getpid()}", lab_home)
    try:
        lab.up("--hosts", "2", "--fabrics", "2")
        yield lab
    finally:
        lab.down()


def where(tmp_path: Path) -> str:
    """A job whose ranks say how they would meet."""
    command = ["sh", "-c", "echo $GLOO_SOCKET_IFNAME $MASTER_ADDR"]
    roles = [{"role": "ddp.play.ddp_job", "vars": {"ddp_job_command": command}}]
    path = tmp_path / "job.yml"
    path.write_text(json.dumps([{"hosts": "ranks", "gather_facts": False, "roles": roles}]))
    return str(path)


def test_the_fast_network_is_chosen(two_nets: Lab, tmp_path: Path) -> None:
    done = two_nets.play("run", where(tmp_path), "-i", str(two_nets.inventory), "--ranks", "all")
    assert done.returncode == 0, done.stderr
    fast = two_nets.on("h1", "ip -4 -o addr show eth1").split()[3].split("/")[0]
    assert f"h1:0: eth1 {fast}" in done.stdout
    assert f"h2:1: eth1 {fast}" in done.stdout
    plan = json.loads(two_nets.play("plan", where(tmp_path), "-i", str(two_nets.inventory), "--json").stdout)
    assert plan["fabric_reason"].startswith("the fastest of 2 common subnets")


TALK = """
import os, socket, time
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    with socket.create_server(at) as server:
        other, _ = server.accept()
        print(sum(len(piece) for piece in iter(lambda: other.recv(1 << 20), b"")))
else:
    for _ in range(200):
        try:
            with socket.create_connection(at, timeout=10) as other:
                other.sendall(bytes(20_000_000))
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
"""


def test_counters_prove_which_network_carried_it(two_nets: Lab, tmp_path: Path) -> None:
    roles = [{"role": "ddp.play.ddp_job", "vars": {"ddp_job_command": ["python3", "-c", TALK]}}]
    path = tmp_path / "talk.yml"
    path.write_text(json.dumps([{"hosts": "ranks", "gather_facts": False, "roles": roles}]))
    done = two_nets.play("run", str(path), "-i", str(two_nets.inventory), "--name", "talk")
    assert done.returncode == 0, done.stderr
    assert "h1:0: 20000000" in done.stdout
    assert "network: eth1 carried 2" in done.stderr  # twenty-odd MB with headers and acknowledgements
    network = json.loads((two_nets.home / "runs" / "talk" / "run.json").read_text())["network"]
    h1, h2 = (network["hosts"][name]["carried"] for name in ("h1", "h2"))
    assert 20_000_000 < h1["eth1"]["rx"] < 25_000_000
    assert 20_000_000 < h2["eth1"]["tx"] < 25_000_000
    assert max(h1["eth0"]["rx"], h2["eth0"]["tx"]) < 2_000_000  # SSH and nothing else


def test_the_user_has_the_last_word(two_nets: Lab, tmp_path: Path) -> None:
    slow = ["-e", "ddp_interface=eth0"]
    done = two_nets.play("run", where(tmp_path), "-i", str(two_nets.inventory), *slow, "--ranks", "all")
    assert done.returncode == 0, done.stderr
    assert "h2:1: eth0" in done.stdout


def test_a_network_that_does_not_carry_is_refused_before_the_start(two_nets: Lab, tmp_path: Path) -> None:
    two_nets.on("h2", "iptables -I INPUT -i eth1 -p tcp -j DROP", user="root")
    try:
        done = two_nets.play("run", where(tmp_path), "-i", str(two_nets.inventory), "--ranks", "all")
    finally:
        two_nets.on("h2", "iptables -D INPUT -i eth1 -p tcp -j DROP", user="root")
    assert done.returncode == 69, done.stderr
    assert "h1" in done.stderr
    assert "does not reach h2" in done.stderr
    assert "h2:1:" not in done.stdout  # nothing was started
    assert two_nets.on("h1", "ls /home/ops/.local/state/ddp-play/host/runs 2>/dev/null | wc -l") == "0"


def test_a_fast_network_that_is_down_on_one_host(two_nets: Lab, tmp_path: Path) -> None:
    """Then it is not common to all, and the other one is."""
    two_nets.on("h2", "ip link set eth1 down", user="root")
    try:
        done = two_nets.play("run", where(tmp_path), "-i", str(two_nets.inventory), "--ranks", "all")
    finally:
        two_nets.on("h2", "ip link set eth1 up", user="root")
    assert done.returncode == 0, done.stderr
    assert "h1:0: eth0" in done.stdout
