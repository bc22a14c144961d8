"""Packages, files and units that differ from the wanted ones; a host in the wanted state has none."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import host_state

PRIVATE = {"type": "directory", "mode": "2770", "content": ""}
ABSENT = {"type": "absent", "content": ""}
RUNS = {"load": "loaded", "active": "active", "enabled": "enabled"}


@pytest.mark.parametrize(
    ("installed", "wanted", "missing"),
    [
        ({}, [], []),
        ({"chrony": "4.3-2", "nftables": "1.0.6-2"}, ["chrony", "nftables"], []),
        ({"chrony": "4.3-2", "nftables": ""}, ["nftables", "chrony"], ["nftables"]),
        ({"chrony": ""}, ["nftables", "chrony"], ["nftables", "chrony"]),
        ({"chrony": "4.3-2", "docker.io": ""}, ["chrony"], []),
    ],
)
def test_missing_packages(installed: dict[str, str], wanted: list[str], missing: list[str]) -> None:
    assert host_state.missing_packages({"packages": installed}, wanted) == missing


@pytest.mark.parametrize(
    ("installed", "held", "misfit", "loose"),
    [
        ({"base": "1.19.0-1", "tools": "1.19.0-1"}, ["base", "tools"], [], []),
        ({"base": "1.19.0-2", "tools": "1.19.0-1"}, ["tools"], [], ["base"]),
        ({"base": "", "tools": ""}, [], ["tools", "base"], []),
        ({"base": "1.19.0-1", "tools": "1.18.2-1"}, ["base"], ["tools"], ["tools"]),
        ({"base": "1.19.0-1", "tools": "1.19.01-1"}, ["base", "tools"], ["tools"], []),
    ],
)
def test_versions_and_holds(installed: dict[str, str], held: list[str], misfit: list[str], loose: list[str]) -> None:
    state = {"packages": {**installed, "other": "9-1"}, "held": held}
    assert host_state.packages_not_of_version(state, ["tools", "base"], "1.19.0") == misfit
    assert host_state.packages_not_held(state, ["tools", "base"]) == loose


@pytest.mark.parametrize(
    ("given", "there", "differs"),
    [
        ({"state": "directory"}, PRIVATE, False),
        ({"state": "directory"}, {"type": "link", "mode": "0777"}, False),
        ({"state": "directory", "mode": "0755"}, {"type": "link", "mode": "0777"}, False),
        ({"state": "directory", "mode": "2770"}, PRIVATE, False),
        ({"state": "directory", "mode": "0755"}, PRIVATE, True),
        ({"state": "directory"}, ABSENT, True),
        ({"state": "absent"}, ABSENT, False),
        ({"state": "absent"}, {"type": "file", "mode": "0644", "content": "a"}, True),
        ({"state": "directory"}, {"type": "file", "mode": "0644"}, True),
        ({"content": "a"}, {"type": "file", "mode": "0644", "content": "a"}, False),
        ({"content": "a", "mode": "0600"}, {"type": "file", "mode": "0600", "content": "a"}, False),
        ({"content": "a"}, {"type": "file", "mode": "0644", "content": "b"}, True),
        ({"content": "a"}, {"type": "file", "mode": "0600", "content": "a"}, True),
        ({"content": "a"}, ABSENT, True),
        ({"content": ""}, ABSENT, True),
        ({"content": "a", "recorded": True}, {"type": "file", "mode": "0600", "content": "a"}, False),
        ({"content": "a", "recorded": True}, {"type": "file", "mode": "0644", "content": "b"}, True),
        ({"content": "", "recorded": True}, ABSENT, True),
    ],
)
def test_drift(given: dict[str, Any], there: dict[str, Any], differs: bool) -> None:
    found = host_state.drifted_files({"files": {"/a": there}}, [{"path": "/a", **given}])
    assert found == (["/a"] if differs else [])


@pytest.mark.parametrize(
    ("changed", "stopped"),
    [
        ({}, []),
        ({"active": "inactive"}, ["chrony.service"]),
        ({"active": "failed", "enabled": "enabled"}, ["chrony.service"]),
        ({"enabled": "disabled"}, ["chrony.service"]),
        ({"load": "not-found", "active": "inactive", "enabled": ""}, ["chrony.service"]),
    ],
)
def test_stopped_units(changed: dict[str, str], stopped: list[str]) -> None:
    state = {"units": {"chrony.service": {**RUNS, **changed}, "ddp-firewall.service": RUNS}}
    assert host_state.stopped_units(state, ["chrony.service", "ddp-firewall.service"]) == stopped


@pytest.mark.parametrize(("active", "inactive"), [("active", []), ("failed", ["a.mount"]), ("inactive", ["a.mount"])])
def test_inactive_units(active: str, inactive: list[str]) -> None:
    assert host_state.inactive_units({"units": {"a.mount": {"active": active}, "b.service": RUNS}}) == inactive
    assert host_state.inactive_units({"units": {}}) == []


@pytest.mark.parametrize(
    ("content", "undone"),
    [
        ("server time.site.example\n", []),
        ("", []),
        ("# Managed by ddp-play (role nccl)\n", [{"path": "/a", "state": "restored", "original": "/a.ddp-play.orig"}]),
    ],
)
def test_only_files_of_the_roles_are_undone(content: str, undone: list[dict[str, str]]) -> None:
    assert host_state.undone_files({"files": {"/a": {"content": content}}}, ["/a"]) == undone


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, "nothing"),
        ({"homes": [], "packages": []}, "nothing"),
        ({"homes": ["/home/b", "/home/a"], "packages": []}, "homes: /home/a /home/b"),
        ({"homes": ["/home/a"], "packages": ["chrony"]}, "homes: /home/a, packages: chrony"),
    ],
)
def test_what_a_removal_leaves_is_said_only_of_what_is_there(parts: dict[str, list[str]], text: str) -> None:
    assert host_state.left(parts) == text


def test_existing_files() -> None:
    files = {"/a": ABSENT, "/b": {"type": "file", "content": ""}, "/c": {"type": "link", "content": ""}}
    assert host_state.existing_files({"files": files}, ["/c", "/a", "/b"]) == ["/c", "/b"]
    assert host_state.existing_files({"files": files}, []) == []


@pytest.mark.parametrize(
    ("state", "settled"),
    [({"settled": True}, True), ({"settled": False}, False), ({"skipped": True, "changed": False}, False)],
)
def test_settled(state: dict[str, bool], settled: bool) -> None:
    assert host_state.settled(state) is settled


@pytest.mark.parametrize(
    ("unsettled", "everywhere"),
    [
        ({"h1": [], "h2": []}, True),
        ({"h1": [], "h2": ["nccl"]}, False),
        ({"h1": [], "h2": None}, False),  # h2 was not read
        ({}, False),
    ],
)
def test_nothing_is_to_be_done_only_if_every_host_says_so(
    unsettled: dict[str, list[str] | None], everywhere: bool
) -> None:
    facts = {host: {} if roles is None else {"ddp_unsettled_roles": roles} for host, roles in unsettled.items()}
    hostvars = {host: {"ansible_facts": found} for host, found in facts.items()}
    assert host_state.settled_everywhere(hostvars, list(unsettled)) is everywhere
    assert not host_state.settled_everywhere({"h1": {}}, ["h1"])


def test_files_of_the_site_that_were_set_aside_come_back_unless_the_site_has_new_ones() -> None:
    paths = ["/etc/apt/cuda.list", "/etc/apt/other.list"]
    entries = host_state.set_aside(paths)
    assert entries[0] == {"path": paths[0], "state": "absent", "original": f"{paths[0]}.ddp-play.orig"}
    aside = [entry["original"] for entry in entries]
    back = host_state.put_back([*aside, paths[1], "/etc/apt/third.list"])
    assert back == [{"path": paths[0], "state": "restored", "original": aside[0]}]
    assert host_state.put_back([]) == []


def test_faults_of_files_tell_those_that_are_missing() -> None:
    state = {"files": {"/a": {"type": "file"}, "/b": {"type": "absent"}, "/c": {"type": "directory"}}}
    faults = host_state.file_faults(state, ["/a", "/b", "/c"])
    assert host_state.wrong(faults) == "files that are missing: /b; files that differ: /a, /c"
    assert host_state.wrong(host_state.file_faults(state, [])) == ""


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({"packages missing": [], "files that differ": ["/b", "/a"]}, "files that differ: /b, /a"),
        ({"not running": ["x"], "no metrics from port": [9100]}, "not running: x; no metrics from port: 9100"),
        ({"packages missing": []}, ""),
    ],
)
def test_only_what_is_wrong_is_said(parts: dict[str, Any], text: str) -> None:
    assert host_state.wrong(parts) == text


TWO = [{"name": "python3", "pid": 7}, {"name": "vllm", "pid": 8}]
DATABASE = "1 container running: db (pg)"


@pytest.mark.parametrize(
    ("reasons", "users", "found"),
    [
        ([], [], []),
        ([DATABASE], [], [DATABASE]),  # users that may be disrupted are not passed; containers still count
        ([], TWO, ["GPUs are in use by python3 pid 7, vllm pid 8"]),
        ([DATABASE], TWO[:1], [DATABASE, "GPUs are in use by python3 pid 7"]),
    ],
)
def test_who_keeps_a_host_as_it_is(reasons: list[str], users: list[dict[str, Any]], found: list[str]) -> None:
    assert host_state.occupants(reasons, users, "GPUs") == found
