"""Hosts that never answer or print for ever: each is named as not usable, and the others go on."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from tests.run import ssh_server
from tests.run.conftest import Play, living
from tests.run.ssh_server import User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.dist, pytest.mark.runner]

LIMIT_S = 5  # the other hosts answer within it also on a busy machine
SILENT, ENDLESS = "exec sleep 1000\n", "exec yes 'Welcome to this cluster'\n"
SCRIPTS = {"good": "", "silent": SILENT, "endless": ENDLESS}
TOO_MUCH = "it sent more than 8 MiB"
WHY = f"it did not answer within {LIMIT_S} s"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ssh_server.SshServer]:
    """A server on which bash reads a start file that never ends."""
    shell = shutil.which("bash") or "/bin/bash"
    with ssh_server.running(
        tmp_path / "server", [User(name, shell, {".bashrc": text}) for name, text in SCRIPTS.items()]
    ) as made:
        yield made


def inventory(play: Play, hosts: dict[str, dict[str, Any]], *, limit_s: int = LIMIT_S) -> Path:
    play.environment["DDP_PLAY_ANSWER_S"] = str(limit_s)
    return play.write("hosts.yml", json.dumps({"ranks": {"hosts": hosts}}))


def test_a_job_runs_on_the_other_hosts(play: Play, server: ssh_server.SshServer) -> None:
    hosts = {name: server.host(name) for name in SCRIPTS}
    job = play.job({"command": ["true"], "hosts": "1..", "ranks_per_host": 1})
    done = play("run", job, "-i", inventory(play, hosts, limit_s=20), timeout_s=120)
    assert done.code == 0, done.err + done.out
    left_out = dict(json.loads((play.newest() / "plan.json").read_text())["left_out"])
    assert set(left_out) == {"silent", "endless"}
    assert (why := "it did not answer within 20 s") in left_out["silent"]
    assert left_out["endless"].startswith((TOO_MUCH, why))  # on a busy machine the limit of time is the first


@pytest.mark.parametrize("verb", ["ps", "usage", "gc"])
def test_a_verb_names_the_hosts_and_answers_for_the_others(play: Play, verb: str) -> None:
    hosts = {}
    for name, script in SCRIPTS.items():
        path = play.write(name, f"#!/bin/sh\n{script}")
        path.chmod(0o755)
        python = str(path) if script else "{{ ansible_playbook_python }}"
        hosts[name] = {"ansible_connection": "local", "ansible_python_interpreter": python}
    listed = play(verb, "-i", inventory(play, hosts), timeout_s=60)
    assert listed.code == 69, listed.err
    assert listed.out
    assert f"silent could not be asked: {WHY}" in listed.err
    assert "usually a mount that does not answer: ssh silent, there timeout 5 df -h" in listed.err
    assert f"endless could not be asked: {TOO_MUCH}" in listed.err
    assert "good" not in listed.err
    assert living(str(play.cwd)) == []
