"""Hosts behind a jump host that takes two new connections at once: all that name it alike share one connection."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.run import ssh_server
from tests.run.conftest import Play
from tests.run.ssh_server import SshServer, User
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.runner]

NAMES = [f"user{number}" for number in range(6)]
WAITS = ["sh", "-c", "echo started; while [ ! -e /home/apart/go-on ]; do sleep 0.2; done; echo ended"]


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[SshServer]:
    """Six logins of one server stand for six hosts: each has a connection of its own."""
    with ssh_server.running(tmp_path / "hosts", [User(name, "/bin/sh") for name in NAMES], "MaxStartups 100\n") as made:
        yield made


@pytest.fixture
def jump(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server.running(tmp_path / "jump", [User("jumper", "/bin/sh")], "MaxStartups 2:100:2\n") as made:
        yield made


def by_command(jump: SshServer, _cwd: Path) -> str:
    """The arguments of ssh that people write where the jump host needs options of its own."""
    options = f"-i {jump.directory}/key -o UserKnownHostsFile={jump.directory}/known_hosts -p {jump.port}"
    return f'-o ProxyCommand="ssh {options} -W %h:%p -q jumper@127.0.0.1"'


def by_configuration(jump: SshServer, cwd: Path) -> str:
    """ProxyJump by a name of ssh's configuration."""
    config = cwd / "ssh_config"
    config.write_text(
        f"Host bastion\n HostName 127.0.0.1\n Port {jump.port}\n User jumper\n IdentityFile {jump.directory}/key\n"
        f" UserKnownHostsFile {jump.directory}/known_hosts\n"
    )
    return f"-F {config} -o ProxyJump=bastion"


def accepted(server: SshServer) -> int:
    return server.log.count("Accepted publickey")


def test_six_hosts_and_a_jump_host_with_max_startups_2(play: Play, hosts: SshServer, jump: SshServer) -> None:
    """Three hosts name the jump host by a command, three by a name: two ways, hence two connections."""
    ways = [by_command(jump, play.cwd), by_configuration(jump, play.cwd)]
    inventory = {name: hosts.host(name, args=ways[at % 2]) for at, name in enumerate(NAMES)}
    path = play.write("hosts.json", json.dumps({"all": {"children": {"ranks": {"hosts": inventory}}}}))
    job = play.job({"ranks_per_host": 1, "command": WAITS, "host_timeout": 120, "lease": 300})
    child = play.start("run", job, "-i", path, "--name", "behind")
    run = play.home / "runs" / "behind"
    wait_until(
        lambda: (
            child.poll() is not None
            or (
                all((run / "logs" / f"rank-{rank}.log").exists() for rank in range(6))
                and "running" in (run / "events.jsonl").read_text()
            )
        ),
        timeout_s=100,
    )
    assert child.poll() is None, child.communicate()
    assert accepted(jump) == 2, jump.log
    assert "MaxStartups" not in jump.log, "no connection was dropped"
    before = accepted(hosts)
    jump.cut()  # all hosts are gone with it, and all come back over one new connection of each way
    wait_until(lambda: all(back(run, name) for name in NAMES), timeout_s=100)
    assert accepted(jump) == 4, jump.log
    assert accepted(hosts) >= before + 6
    Path(f"/proc/{hosts.process.pid}/root/home/apart/go-on").touch()
    out, err = child.communicate(timeout=100)
    assert child.returncode == 0, err + out


def back(run: Path, name: str) -> bool:
    """Does the journal say that the host came back?"""
    lines = (json.loads(line) for line in (run / "events.jsonl").read_text().splitlines())
    return any(row.get("host") == name and row.get("state") == "back" for row in lines)
