"""A job that needs a few of many hosts asks a few, and each of them as Ansible would reach it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.run.conftest import Play

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dist, pytest.mark.runner]

COMMAND = {"command": ["sh", "-c", "echo {rank} $DDP_PLAY_RUN_ID"], "network": ""}


def site(play: Play, num_hosts: int, **hosts: dict[str, Any]) -> Path:
    """Hosts h1, h2, ... on this machine, each with a Python that records its use in asked/HOST."""
    (play.cwd / "asked").mkdir()
    rows: dict[str, dict[str, Any]] = {}
    for number in range(1, num_hosts + 1):
        name = f"h{number}"
        python = play.write(f"python-{name}", f'#!/bin/sh\n: > {play.cwd}/asked/{name}\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        rows[name] = {"ansible_connection": "local", "ansible_python_interpreter": str(python), "ddp_slots": 1}
        rows[name] |= {"ddp_python": sys.executable, **hosts.get(name, {})}
    return play.write("hosts.json", json.dumps({"ranks": {"hosts": rows}}))


def asked(play: Play) -> list[str]:
    return sorted(path.name for path in (play.cwd / "asked").iterdir())


def plan(play: Play, job: Path, hosts: Path, *more: str) -> dict[str, Any]:
    done = play("plan", job, "-i", hosts, "--json", *more)
    assert done.code == 0, done.err
    found: dict[str, Any] = done.json
    return found


def test_the_others_are_not_asked_and_are_one_line_of_the_plan(play: Play) -> None:
    job, hosts = play.job({**COMMAND, "hosts": 2}), site(play, 6)
    found = plan(play, job, hosts)
    assert asked(play) == ["h1", "h2"]
    assert [host["name"] for host in found["hosts"]] == ["h1", "h2"]
    assert found["left_out"] == [["h3 and 3 more", "not asked: ddp_job_hosts needs no more hosts"]]
    assert plan(play, job, hosts, "--cached")["left_out"] == found["left_out"]


def test_another_host_is_asked_for_one_that_cannot_be_used(play: Play) -> None:
    broken = {"ansible_python_interpreter": "/nowhere/python3"}
    hosts = site(play, 5, h2=broken, h3={"ansible_connection": "community.docker.docker"})
    done = play("run", play.job({**COMMAND, "hosts": 2}), "-i", hosts)
    assert done.code == 0, done.err
    assert asked(play) == ["h1", "h4"]
    made = json.loads((play.newest() / "plan.json").read_text())
    assert [host["name"] for host in made["hosts"]] == ["h1", "h4"]
    left_out = dict(made["left_out"])
    assert "/nowhere/python3" in left_out["h2"]
    assert left_out["h3"] == "connection community.docker.docker is not supported; use ssh or local"
    assert "not asked" in left_out["h5"]


def test_too_few_hosts_are_an_error_that_names_every_host(play: Play) -> None:
    broken = {"ansible_python_interpreter": "/nowhere/python3"}
    done = play("run", play.job({**COMMAND, "hosts": 2}), "-i", site(play, 3, h1=broken, h3=broken))
    assert done.code == 69
    assert "h1, h3: /bin/sh: 1: exec: /nowhere/python3: not found" in done.err
    assert "on h1,h3" in done.err
    assert "1 of 3 hosts are usable and ddp_job_hosts requires 2" in done.err
    assert play.left_on_host() == []


def test_every_host_has_its_own_variables(play: Play) -> None:
    """From the play too, where a value is a template of the host's."""
    job = play.job({**COMMAND, "hosts": 2})
    document = json.loads(job.read_text())
    document[0]["vars"] = {"ddp_interface": "{{ 'lo' if inventory_hostname == 'h1' else nic }}"}
    job.write_text(json.dumps(document))
    hosts = site(play, 3, h2={"nic": "lo"}, h3={"nic": "lo"})
    assert {kind["interface"] for kind in plan(play, job, hosts)["kinds"]} == {"lo"}
    rows = json.loads(hosts.read_text())
    del rows["ranks"]["hosts"]["h2"]["nic"]
    hosts.write_text(json.dumps(rows))
    found = plan(play, job, hosts)
    assert [host["name"] for host in found["hosts"]] == ["h1", "h3"]
    assert "'nic' is undefined" in dict(found["left_out"])["h2"]


def test_a_host_on_which_an_earlier_task_failed_has_no_ranks(play: Play) -> None:
    job, hosts = play.job({**COMMAND, "hosts": "1.."}), site(play, 3)
    document = json.loads(job.read_text())
    refuse = {"ansible.builtin.assert": {"that": "inventory_hostname != 'h2'"}, "name": "Look for the data"}
    document[0]["pre_tasks"] = [refuse]
    job.write_text(json.dumps(document))
    play("run", job, "-i", hosts)
    made = json.loads((play.newest() / "plan.json").read_text())
    assert [host["name"] for host in made["hosts"]] == ["h1", "h3"]
    assert made["left_out"] == [["h2", "a task before the job failed on it"]]


def test_with_serial_each_batch_is_a_job(play: Play) -> None:
    job, hosts = play.job(COMMAND), site(play, 2)
    document = json.loads(job.read_text())
    document[0]["serial"] = 1
    job.write_text(json.dumps(document))
    done = play("-i", hosts, job, program="ansible-playbook")
    assert done.code == 0, done.out
    assert [play.document(run)["hosts"] for run in play.runs()] == [["h1"], ["h2"]]
    assert {play.document(run)["status"] for run in play.runs()} == {"succeeded"}
