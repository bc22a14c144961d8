"""One configuration for all hosts of a Slurm cluster, and what speaks against it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.plugin_utils import slurm_cluster
from ansible_collections.ddp.play.plugins.plugin_utils.slurm_cluster import Cluster, Member

CONF = "# Managed by ddp-play (role slurm)\n"
OLD = "NodeName=n2 NodeAddr=10.1.0.2 CPUs=4 RealMemory=100 State=UNKNOWN # host n2"
HARDWARE = {"CPUs": "8", "RealMemory": "1000"}


def member(name: str, **facts: Any) -> Member:
    number = name[1:]
    known = {
        "hostname": name,
        "hardware": HARDWARE,
        "gpus": [],
        "cgroup": True,
        "uids": {"slurm": 64030},
        "release": "22.05",
        "conf": "",
        "key": "",
        "munge_before": False,
        "addresses": {f"10.1.0.{number}": [f"10.1.0.{number}"]},
    }
    return Member(f"10.1.0.{number}", known | facts)


def cluster(**fields: Any) -> Cluster:
    names = ("n1", "n2", "n3")
    members = {name: member(name) for name in names}
    return replace(Cluster(("n1",), names, members, names), **fields)


def problems(**fields: Any) -> list[str]:
    found: list[str] = slurm_cluster.problems(cluster(**fields))
    return found


def with_facts(**facts: Any) -> dict[str, Member]:
    """The members, of which n2 has these facts."""
    return {"n1": member("n1"), "n2": member("n2", **facts), "n3": member("n3")}


def test_three_hosts_form_a_cluster() -> None:
    assert problems() == []
    found = slurm_cluster.result(cluster(jobs=("7",)))
    assert found["node_names"] == found["present_names"] == ["n1", "n2", "n3"]
    assert (found["controller_name"], found["controller_address"], found["leads"]) == ("n1", "10.1.0.1", True)
    assert (found["jobs"], found["outside"], found["without_hardware"]) == (["7"], [], [])


def test_line_of_a_node_leaves_memory_to_the_kernel_and_names_its_host() -> None:
    line = slurm_cluster.node_line("n1", member("n1"))
    assert line == "NodeName=n1 NodeAddr=10.1.0.1 CPUs=8 RealMemory=950 State=UNKNOWN # host n1"
    assert slurm_cluster.node_line("n1", member("n1", hardware={})) == ""


@pytest.mark.parametrize(
    ("gpus", "gres", "lines"),
    [
        ([], "", []),
        ([("h100", 0)], "Gres=gpu:h100:1", ["NodeName=n1 Name=gpu Type=h100 File=/dev/nvidia0 # host n1"]),
        (
            [("h100", 0), ("h100", 1), ("a100", 3)],
            "Gres=gpu:h100:2,gpu:a100:1",
            [
                "NodeName=n1 Name=gpu Type=h100 File=/dev/nvidia[0,1] # host n1",
                "NodeName=n1 Name=gpu Type=a100 File=/dev/nvidia3 # host n1",
            ],
        ),
        ([("", 0), ("", 1)], "Gres=gpu:2", ["NodeName=n1 Name=gpu File=/dev/nvidia[0,1] # host n1"]),
    ],
)
def test_gpus_of_a_node(gpus: list[tuple[str, int]], gres: str, lines: list[str]) -> None:
    host = member("n1", gpus=[{"type": kind, "minor": minor} for kind, minor in gpus])
    assert slurm_cluster.gres_lines("n1", host) == lines
    assert [word for word in slurm_cluster.node_line("n1", host).split() if word.startswith("Gres=")] == (
        [gres] if gres else []
    )


def test_a_host_outside_the_limit_keeps_its_line_and_one_outside_the_group_loses_it() -> None:
    gone = OLD.replace("n2", "n9")
    partial = cluster(members={"n1": member("n1")}, present=("n1",), nodes=("n1", "n2"), conf=f"{CONF}{OLD}\n{gone}\n")
    found = slurm_cluster.result(partial)
    assert found["nodes"] == [slurm_cluster.node_line("n1", member("n1")), OLD]
    assert found["outside"] == ["n2"]


def test_a_node_without_slurmd_is_waited_for() -> None:
    found = slurm_cluster.result(cluster(members=with_facts(hardware={})))
    assert (found["node_names"], found["without_hardware"]) == (["n1", "n3"], ["n2"])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"members": with_facts(cgroup=False)}, False),
        ({"members": {"n1": member("n1")}, "conf": f"{CONF}{OLD}\n"}, False),
        ({"members": {"n1": member("n1")}, "conf": f"{CONF}{slurm_cluster.CGROUP}\n{OLD}\n"}, True),
    ],
)
def test_control_groups_are_used_if_every_node_can(fields: dict[str, Any], expected: bool) -> None:
    assert slurm_cluster.uses_cgroups(cluster(**fields)) is expected


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"controllers": ("n1", "n2")}, "one controller, and group slurm_controller has n1, n2"),
        ({"controllers": ()}, "group slurm_controller has none"),
        ({"accounting": ("n1", "n2")}, "group slurm_accounting has n1, n2"),
        ({"nodes": ()}, "group slurm_nodes has no host"),
        ({"members": with_facts(hostname="n1")}, "n2 is called n1, as n1 is"),
        ({"members": with_facts(hostname="localhost")}, "n2 is called localhost: give it"),
        ({"members": with_facts(addresses={"n1": ["127.0.1.1"]})}, "n2 resolves n1 to 127.0.1.1"),
        ({"members": with_facts(addresses={"n1": []})}, "n2 cannot resolve n1"),
        ({"members": with_facts(uids={"slurm": 991})}, "uid of user slurm has to be the same on all hosts: 64030"),
        ({"members": with_facts(release="24.11")}, "of Slurm has to be the same on all hosts: 22.05 on n1, n3; 24"),
        ({"members": with_facts(conf="ClusterName=theirs")}, "n2 has an /etc/slurm/slurm.conf of its site"),
        ({"members": with_facts(munge_before=True, key="b"), "key": "a"}, "n2 had MUNGE before, with another key"),
        ({"present": ("n2",)}, "n1 is not configured yet"),
        ({"present": ("n3",), "conf": f"{CONF}{OLD}\n"}, "n1 does not know n3 yet"),
    ],
)  # fmt: skip
def test_what_speaks_against_a_cluster(fields: dict[str, Any], words: str) -> None:
    (problem,) = problems(**fields)
    assert words in problem


@pytest.mark.parametrize(
    "fields",
    [
        {"members": with_facts(uids={}, release="")},  # nothing is installed, and its lists of packages are old
        {"members": with_facts(conf=CONF)},
        {"members": with_facts(conf="ClusterName=theirs"), "replace_conf": True},
        {"members": with_facts(munge_before=True, key="a"), "key": "a"},
        {"members": with_facts(munge_before=True, key="b"), "key": "a", "replace_key": True},
        {"present": ("n2",), "conf": f"{CONF}{OLD}\n"},
    ],
)
def test_what_does_not(fields: dict[str, Any]) -> None:
    assert problems(**fields) == []


def test_the_controllers_own_key_is_that_of_the_cluster_unless_one_is_given() -> None:
    members = {**with_facts(), "n1": member("n1", munge_before=True, key="theirs")}
    assert problems(members=members, key="theirs") == []
    (problem,) = problems(members=members, key="given", given_key=True)
    assert problem.startswith("n1 had MUNGE before, with another key")
