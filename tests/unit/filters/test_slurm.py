"""Computations of role slurm."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import slurm

TABLE = {"all": ["munge"], "controller": ["slurmctld"], "node": ["slurmd"]}
NODE = "NodeName=n1 CPUTot=2 State=%s ThreadsPerCore=1%s"


def answer(state: str, more: str = "", rc: int = 0) -> dict[str, Any]:
    return {"rc": rc, "stdout": NODE % (state, more), "stderr": ""}


@pytest.mark.parametrize(
    ("host", "parts", "names"),
    [
        ("n1", ["controller", "node"], ["munge", "slurmctld", "slurmd"]),
        ("n2", ["node"], ["munge", "slurmd"]),
        ("n9", [], ["munge"]),
    ],
)
def test_parts_of_a_host(host: str, parts: list[str], names: list[str]) -> None:
    assert slurm.parts(host, {"controller": ["n1"], "node": ["n1", "n2"]}) == parts
    assert slurm.of_parts(TABLE, parts) == names
    assert slurm.of_parts({}, parts) == []


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ([], []),
        (["7"], ["Slurm runs 1 job: 7"]),
        (list("1234567"), ["Slurm runs 7 jobs: 1, 2, 3, 4, 5 and 2 more"]),
    ],
)
def test_jobs_make_a_host_busy(jobs: list[str], text: list[str]) -> None:
    assert slurm.busy([], jobs) == text
    assert slurm.busy(["ranks running: a"], jobs) == ["ranks running: a", *text]


@pytest.mark.parametrize(
    ("found", "problem", "reached"),
    [
        (answer("IDLE"), "", True),
        (answer("MIXED+COMPLETING"), "", True),
        (
            answer("IDLE+DRAIN", " Reason=ddp-play: / has 3 MiB left [root@2026-11-25T17:51:40]"),
            "its state is IDLE+DRAIN (ddp-play: / has 3 MiB left)",
            True,
        ),
        (answer("DOWN+NOT_RESPONDING"), "its state is DOWN+NOT_RESPONDING", False),
        (answer("IDLE+NOT_RESPONDING"), "its state is IDLE+NOT_RESPONDING", False),
        (answer("UNKNOWN"), "its state is UNKNOWN", False),
        (answer("IDLE*+DRAIN"), "its state is IDLE+DRAIN+NOT_RESPONDING", False),
        (
            {"rc": 1, "stdout": "", "stderr": "Unable to contact slurm controller\nmore"},
            "the controller does not answer for it (Unable to contact slurm controller)",
            False,
        ),
        (
            {"rc": 0, "stdout": "Node n1 not found", "stderr": ""},
            "the controller does not answer for it (Node n1 not found)",
            False,
        ),
    ],
)
def test_state_of_a_node(found: dict[str, Any], problem: str, reached: bool) -> None:
    assert slurm.node_problem(found) == problem
    assert slurm.is_reached(found) is reached


@pytest.mark.parametrize(("started", "found"), [(0, []), (50, ["slurmd.service"]), (150, [])])
def test_a_daemon_that_runs_since_before_its_configuration(started: int, found: list[str]) -> None:
    files = {"/a": {"type": "file", "mtime": 100}, "/b": {"type": "absent"}}
    state = {"files": files, "units": {"slurmd.service": {"started": started}}}
    assert slurm.stale(state, ["slurmd.service"], ["/a", "/b"]) == found


@pytest.mark.parametrize(
    ("stdout", "mode", "wanted", "theirs", "expected"),
    [
        ("abc  /key", "0400", "abc", False, False),
        ("abc  /key", "0600", "abc", False, True),
        ("abc  /key", "0600", "abc", True, False),
        ("abc  /key", "0400", "abd", True, True),
        ("", None, "abc", False, True),
        ("", None, "", False, True),
    ],
)
def test_a_host_that_lacks_the_key(stdout: str, mode: str | None, wanted: str, theirs: bool, expected: bool) -> None:
    file = {"type": "absent"} if mode is None else {"type": "file", "mode": mode}
    state = {"commands": {"key": {"stdout": stdout}}, "files": {"/key": file}}
    assert slurm.lacks_key(state, wanted, "/key", theirs) is expected


@pytest.mark.parametrize(
    ("text", "load", "units"),
    [
        ("# Managed by ddp-play (role slurm)", "loaded", ["slurmd.service"]),
        ("# Managed by ddp-play (role slurm)", "not-found", []),
        ("ClusterName=theirs", "loaded", []),
        ("", "loaded", []),
    ],
)
def test_a_removal_stops_only_what_has_our_configuration(text: str, load: str, units: list[str]) -> None:
    state = {"files": {"/c": {"content": text}}, "units": {"slurmd.service": {"load": load}}}
    assert slurm.own_units(state, ["slurmd.service"], "/c") == units


def test_addresses_are_settings_first() -> None:
    hosts = {
        "a": {"inventory_hostname": "a", "slurm_address": "10.2.0.1", "ansible_host": "192.0.2.1"},
        "b": {"inventory_hostname": "b", "ansible_host": "10.2.0.2"},
        "c": {"inventory_hostname": "c"},
    }
    assert slurm.addresses(hosts, ["a", "b", "c", "a"]) == ["10.2.0.1", "10.2.0.2", "c"]


def test_free_nodes_are_neither_drained_nor_silent() -> None:
    rows = "n1 idle\nn1 idle\nn2 drained\nn3 idle*\nn4 mixed\nn5 idle\n\n"
    assert slurm.free_nodes(rows) == ["n1", "n5"]
    assert slurm.free_nodes("") == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("n1.example.com\nn2\n", []), ("n1\nn1\n", ["n2"]), ("n1\nn3\n", ["n2", "n3"]), ("", ["n1", "n2"])],
)
def test_nodes_that_did_not_answer(text: str, wrong: list[str]) -> None:
    assert slurm.wrong_hosts(text, ["n1", "n2"]) == wrong


@pytest.mark.parametrize(
    ("extra", "flags", "others"),
    [
        ({}, "Contain", {}),
        ({"MaxJobCount": 5}, "Contain", {"MaxJobCount": 5}),
        ({"PrologFlags": "X11,Alloc", "MaxJobCount": 5}, "Contain,X11,Alloc", {"MaxJobCount": 5}),
        ({"prologflags": "contain, Serial"}, "Contain,Serial", {}),
    ],
)
def test_flags_of_the_prolog_are_merged(extra: dict[str, Any], flags: str, others: dict[str, Any]) -> None:
    assert slurm.prolog_flags(extra) == flags
    assert slurm.without_prolog_flags(extra) == others
