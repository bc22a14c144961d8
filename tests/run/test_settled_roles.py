"""Roles of verify and provision that are followed in one task, by real ansible-playbook on this machine."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.content.role_files import ROOT, read
from tests.roles_gpu import fixture
from tests.run.ansible_playbook import run_playbook

pytestmark = pytest.mark.runner

READING = "Find the roles that have nothing to do or to say"
DECISION = "Decide whether any role has anything to do or to say"
# Roles that this machine has whatever its state: each is skipped, or nothing differs.
TAGS = "cluster_users,scratch,rdma,nvidia_driver,cuda_toolkit,nccl,nfs_client,image_distribution"
SITE: dict[str, Any] = {
    "ansible_connection": "local",
    "ansible_python_interpreter": sys.executable,
    "ansible_become": False,
    "nccl_enabled": "true",
    "__nccl_libraries": [],
    "__nccl_drifted": [],
}
# What differs of the file of role nccl, as the role itself computes it; SITE says nothing does.
COMPUTED = read(ROOT / "roles/nccl/vars/main.yml")["__nccl_drifted"]


@dataclass(frozen=True)
class Played:
    """One run: names of the tasks that a host did not skip, by host, what they said, and what the reading found."""

    code: int
    tasks: dict[str, list[str]]
    said: dict[str, list[str]]
    settled: dict[str, dict[str, str]]


def play(
    folder: Path,
    book: str | Path,
    *options: str,
    hosts: dict[str, dict[str, Any]] | None = None,
    tags: str = TAGS,
    gpus: tuple[int, ...] = (),
) -> Played:
    """Run a playbook, given by its verb or its file, on hosts that are all this machine, without RDMA.

    Its GPUs have no driver, which cannot be read here; most hosts have none.
    """
    fixture.write(folder, fixture.Hardware(gpus=gpus))
    (folder / "hosts.json").write_text(json.dumps({"ranks": {"hosts": hosts or {"h1": {}}}}))
    extra = json.dumps(SITE | fixture.variables(folder))
    path = book if isinstance(book, Path) else ROOT / f"playbooks/{book}.yml"
    code, tasks = run_playbook(folder, "-i", "hosts.json", str(path), "--tags", tags, "-e", extra, *options)
    rows = [
        (host, task["task"]["name"].partition(" : ")[2] or task["task"]["name"], result)
        for task in tasks
        for host, result in task["hosts"].items()
        if not result.get("skipped")
    ]
    found = Played(code, {}, {}, {})
    for host, name, result in rows:
        found.tasks.setdefault(host, []).append(name)
        found.said.setdefault(host, []).append(str(result.get("msg", "")))
        if "settled_roles" in result:
            found.settled[host] = result["settled_roles"]
    return found


def test_a_host_in_the_wanted_state_is_verified_by_one_reading(tmp_path: Path) -> None:
    found = play(tmp_path, "verify")
    assert (found.code, found.tasks) == (0, {"h1": [READING, DECISION]})
    settled = found.settled["h1"]
    assert sorted(settled) == sorted(TAGS.split(","))
    assert settled["nccl"] == ""
    assert settled["nfs_client"] == "nfs_client_mounts is empty"
    assert settled["rdma"].startswith("no RDMA hardware found in sysfs")


def test_what_was_changed_by_hand_is_told_by_its_role(tmp_path: Path) -> None:
    found = play(tmp_path, "verify", "-e", json.dumps({"__nccl_drifted": ["/etc/nccl.conf"]}))
    assert found.code != 0
    assert sorted(found.settled["h1"]) == sorted(set(TAGS.split(",")) - {"nccl"})
    assert found.tasks["h1"][0] == READING
    assert "/etc/nccl.conf" in "".join(found.said["h1"])
    assert found.said["h1"][-1] == "not as provisioned: nccl, as said above"


@pytest.mark.long
def test_a_file_of_the_site_is_as_wanted_while_there_are_no_settings(tmp_path: Path) -> None:
    theirs = tmp_path / "nccl.conf"
    theirs.write_text("NCCL_SOCKET_IFNAME=^lo\n")
    given = {"nccl_conf_path": str(theirs), "__nccl_drifted": COMPUTED}
    for verb, options in (("verify", ()), ("provision", ("--check",))):
        found = play(tmp_path, verb, *options, "-e", json.dumps(given), tags="nccl")
        assert (found.code, found.settled["h1"]) == (0, {"nccl": ""}), found
        assert found.tasks == {"h1": [READING, DECISION]}
    changed = play(tmp_path, "verify", "-e", json.dumps({**given, "nccl_conf": {"NCCL_IB_TC": 106}}), tags="nccl")
    assert changed.code != 0
    assert "missing NCCL_IB_TC=106; not wanted NCCL_SOCKET_IFNAME=^lo" in "".join(changed.said["h1"])


LAST = "Fail a host on which a role failed"


def test_every_role_that_fails_on_a_host_is_told_in_one_run_and_others_are_as_provisioned(tmp_path: Path) -> None:
    """Roles of several plays: after a failure a host goes on, and Ansible fails it at the end."""
    given = {
        "__nccl_drifted": "{{ ['/etc/nccl.conf'] if inventory_hostname == 'h1' else [] }}",
        "rdma_expected_hcas": "{{ 2 if inventory_hostname == 'h1' else 0 }}",
        "__nfs_client_state": {},
        "gone": [{"server": "no.such", "path": "/", "mountpoint": "/gone"}],
        "nfs_client_mounts": "{{ gone if inventory_hostname == 'h1' else [] }}",
    }
    found = play(tmp_path, "verify", "-e", json.dumps(given), hosts={"h1": {}, "h2": {}})
    said = "\n".join(found.said["h1"])
    assert found.code == 2
    assert "rdma_expected_hcas is 2" in said
    assert "/etc/nccl.conf is not as wanted" in said
    assert found.tasks["h1"][-1] == LAST
    assert found.said["h1"][-1] == "not as provisioned: rdma, nccl, nfs_client, as said above"
    assert found.tasks["h2"] == [READING]
    assert sorted(found.settled["h2"]) == sorted(TAGS.split(","))


# What role slurm has: a task of each host, one of all hosts, and another of each host.
FOR_ALL = [
    {"ansible.builtin.assert": {"that": "inventory_hostname != 'h2'", "fail_msg": "h2 alone"}},
    {"ansible.builtin.fail": {"msg": "for all"}, "run_once": True},
    {"ansible.builtin.debug": {"msg": "after it"}},
]


def test_a_failure_of_all_hosts_loses_no_host_that_has_failed_before(tmp_path: Path) -> None:
    plays = read(ROOT / "playbooks/verify.yml")
    slurm, last = ({**play, "hosts": "ranks"} for play in plays if play["name"] in ("Slurm", plays[-1]["name"]))
    (block,) = slurm["tasks"]
    stand_in = {**block, "block": [{**block["block"][0], "block": FOR_ALL}]}
    book = tmp_path / "slurm.yml"
    book.write_text(yaml.safe_dump([{**slurm, "tasks": [stand_in]}, last]))
    hosts: dict[str, dict[str, Any]] = {name: {} for name in ("h1", "h2", "h3")}
    found = play(tmp_path, book, hosts=hosts, tags="slurm")
    assert found.code == 2
    assert found.tasks["h1"][-1] == LAST
    for host in ("h2", "h3"):  # Ansible takes them out, so that they fail in this play
        assert found.tasks[host][-1] == "Fail a host that is out with another"
        assert found.said[host][-1].startswith("not as provisioned, or not known: slurm")
    assert "h2 alone" in found.said["h2"]
    assert "after it" not in str(found.said)


def test_a_role_that_would_refuse_its_settings_does_so_itself(tmp_path: Path) -> None:
    found = play(tmp_path, "verify", "-e", "rdma_expected_hcas=2")
    assert found.code != 0
    assert "rdma_expected_hcas is 2, but no RDMA hardware found" in "".join(found.said["h1"])


@pytest.mark.parametrize("verb", ["verify", "provision"])
def test_a_value_that_the_spec_of_a_role_refuses_fails(tmp_path: Path, verb: str) -> None:
    """Although nvidia_driver would take a host with a GPU for one without."""
    tags = "cluster_users,nvidia_driver"
    found = play(tmp_path, verb, "--check", "-e", "nvidia_driver_enabled=Auto", tags=tags, gpus=(0x2330,))
    assert found.code != 0
    assert "nvidia_driver_enabled must be one of: auto, true, false, got: Auto" in found.said["h1"][-1]


def test_a_value_that_depends_on_facts_is_not_refused(tmp_path: Path) -> None:
    given = {"nvidia_driver_branch": "{{ ansible_facts.of_no_reading }}"}
    found = play(tmp_path, "verify", "-e", json.dumps(given), tags="nvidia_driver")
    assert (found.code, list(found.settled["h1"])) == (0, ["nvidia_driver"])


# The two plays of verify.yml that have parts of base_os, with rules that nobody made.
PEERS = """
- hosts: all
  gather_facts: false
  vars: {ddp_settled: {base_os: ""}}
  tasks:
    - ansible.builtin.import_role: {name: ddp.play.base_os, tasks_from: verify}
- hosts: all
  gather_facts: false
  vars: {base_os_peers: "{{ ansible_play_hosts }}"}
  tasks:
    - ansible.builtin.import_role: {name: ddp.play.base_os, tasks_from: peer}
"""
FIREWALL = {"base_os_firewall": True, "__base_os_probed_address": "127.0.0.1"}


@pytest.mark.parametrize(("given", "failed"), [({}, False), ({"__base_os_connection": {"msg": "no route"}}, True)])
def test_a_peer_connects_to_a_host_whose_firewall_is_settled(
    tmp_path: Path, given: dict[str, Any], failed: bool
) -> None:
    book = tmp_path / "peers.yml"
    book.write_text(PEERS)
    found = play(tmp_path, book, "-e", json.dumps(FIREWALL | given), hosts={"h1": {}, "h2": {}}, tags="all")
    assert (found.code != 0) is failed
    for host, peer in (("h1", "h2"), ("h2", "h1")):
        assert found.tasks[host][-1] == "peer | Assert that the connection was made"
        assert (f"{peer} does not reach port" in found.said[host][-1]) is failed
        assert ("no route" in found.said[host][-1]) is failed


def test_tags_select_what_is_followed(tmp_path: Path) -> None:
    found = play(tmp_path, "verify", "--skip-tags", "rdma,scratch")
    assert set(found.settled["h1"]) == set(TAGS.split(",")) - {"rdma", "scratch"}


def test_a_second_provisioning_reads_each_host_once(tmp_path: Path) -> None:
    found = play(tmp_path, "provision", "--check", hosts={"h1": {}, "h2": {}})
    assert found.code == 0
    assert found.tasks == {"h1": [READING, DECISION], "h2": [READING]}


def test_one_host_with_something_to_do_lets_all_roles_run(tmp_path: Path) -> None:
    drifted = "{{ ['/etc/nccl.conf'] if inventory_hostname == 'h2' else [] }}"
    hosts: dict[str, dict[str, Any]] = {"h1": {}, "h2": {}}
    found = play(tmp_path, "provision", "--check", "-e", json.dumps({"__nccl_drifted": drifted}), hosts=hosts)
    assert "nccl" in found.settled["h1"]
    assert "nccl" not in found.settled["h2"]
    for host in hosts:
        assert "skipped: nfs_client: nfs_client_mounts is empty" in found.said[host]
