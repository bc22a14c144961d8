"""What role docker_engine decides: adopt, install, replace or refuse, and what becomes of daemon.json."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.ddp.play.plugins.filter import docker_engine as role

VENDOR = ["docker-ce", "docker-ce-cli", "containerd.io"]
OTHERS = ["docker.io", "containerd", "runc", "podman-docker"]
DEBIAN = {"docker.io": "20.10.24+dfsg1-1+deb12u1", "containerd": "1.6.20", "runc": "1.1.5"}
OURS = dict.fromkeys(VENDOR, "5:29.1.3-1~debian.12~bookworm")


def state(packages: dict[str, str], running: str = "", unit: str = "loaded") -> dict[str, Any]:
    info = {"rc": 0 if running else 1, "stdout": json.dumps({"ServerVersion": running}), "stderr": ""}
    found = {name: packages.get(name, "") for name in [*VENDOR, *OTHERS, "moby-engine"]}
    return {"packages": found, "commands": {"info": info}, "units": {"docker.service": {"load": unit}}}


def decide(host: dict[str, Any], **changes: Any) -> dict[str, Any]:
    wanted = {"packages": VENDOR, "conflicts": OTHERS, "version": "", "floor": "20.10", "replace": False}
    return dict(role.decide(host, {**wanted, "owned": False, **changes}))


@pytest.mark.parametrize(
    ("host", "changes", "action", "install", "remove", "held"),
    [
        (state({}, unit="not-found"), {}, "install", VENDOR, [], VENDOR),
        (state(OURS, "29.1.3"), {"owned": True}, "keep", [], [], VENDOR),
        (state(OURS, "29.1.3"), {"owned": True, "replace": True}, "keep", [], [], VENDOR),
        # somebody else's: adopted as it is, whatever brought it, also where a part of ours is missing or it is stopped
        (state(DEBIAN, "20.10.24+dfsg1"), {}, "adopt", [], [], ["docker.io"]),
        (state(DEBIAN), {}, "adopt", [], [], ["docker.io"]),
        (state({"docker-ce": "5:27.0.1-1"}, "27.0.1"), {}, "adopt", [], [], ["docker-ce"]),
        (state({"moby-engine": "27.3.1-2.fc41"}, "27.3.1"), {}, "adopt", [], [], ["moby-engine"]),
        (state({}, "28.0.0"), {}, "adopt", [], [], []),
        (state({**OURS, "podman-docker": "4.3"}, "29.1.3"), {"owned": True}, "keep", [], [], VENDOR),
        # replaced only by name
        (state(DEBIAN, "20.10.24"), {"replace": True}, "replace", VENDOR, ["docker.io", "containerd", "runc"], VENDOR),
        (state({**OURS, "runc": "1.1"}, "29.1.3"), {"replace": True}, "replace", [], ["runc"], VENDOR),
        # a version by name, and an installation that was cut off
        (state(OURS, "29.1.3"), {"version": "29.2.0", "owned": True}, "install", VENDOR, [], VENDOR),
        (state(OURS, "29.1.3"), {"version": "29.2.0", "replace": True}, "install", VENDOR, [], VENDOR),
        (state(OURS, "29.1.3"), {"version": "29.1.3"}, "adopt", [], [], VENDOR),
        (state({"docker-ce": "5:29.1.3-1"}, "29.1.3"), {"owned": True}, "install", VENDOR[1:], [], VENDOR),
        (state({"docker-ce-cli": "5:29.1.3-1"}, "29.1.3"), {"owned": True}, "install", VENDOR, [], VENDOR),
        (state({"containerd": "1.6"}, unit="not-found"), {"replace": True}, "install", VENDOR, ["containerd"], VENDOR),
    ],
)  # fmt: skip
def test_decision(
    host: dict[str, Any], changes: dict[str, Any], action: str, install: list[str], remove: list[str], held: list[str]
) -> None:
    found = decide(host, **changes)
    assert (found["action"], found["install"], found["remove"], found["held"]) == (action, install, remove, held)


@pytest.mark.parametrize(
    ("host", "changes", "why"),
    [
        (state({"docker.io": "19.03.8-0"}, "19.03.8"), {}, "docker.io 19.03.8 is older than 20.10"),
        (state(OURS, "29.1.3"), {"version": "29.2.0"}, "not the version 29.2.0 of docker_engine_version"),
        (state(DEBIAN, "20.10.24"), {"version": "29.1.3"}, "not the version 29.1.3 of docker_engine_version"),
        (state({}, "28.0.0", unit="not-found"), {}, "without a docker.service"),
        (state({}, "28.0.0"), {"replace": True}, "cannot be replaced"),
        (state({"containerd": "1.6", "runc": "1.1"}), {}, "containerd, runc would have to be removed for docker-ce"),
    ],
)
def test_refusal_removes_nothing(host: dict[str, Any], changes: dict[str, Any], why: str) -> None:
    found = decide(host, **changes)
    assert (found["action"], found["install"], found["remove"]) == ("refuse", [], [])
    assert why in found["why"]


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("packages", [{}, DEBIAN, OURS, {**OURS, **DEBIAN}, {"containerd": "1"}])
def test_nothing_is_removed_unless_asked_by_name(packages: dict[str, str], replace: bool) -> None:
    found = decide(state(packages, "29.1.3" if packages else ""), replace=replace)
    assert replace or found["remove"] == []
    assert set(found["remove"]) <= set(OTHERS)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("5:29.1.3-1~debian.12~bookworm", "29.1.3"),
        ("20.10.24+dfsg1-1+deb12u1", "20.10.24"),
        ("3:29.1.3-1.el9", "29.1.3"),
        ("29.1.3", "29.1.3"),
        ("", ""),
        ("dev", ""),
    ],
)
def test_upstream_version(text: str, version: str) -> None:
    assert role.upstream_version(text) == version


LOCAL = {"log-driver": "local", "log-opts": {"max-size": "100m"}, "live-restore": True}


@pytest.mark.parametrize(
    ("there", "wanted", "last", "merged"),
    [
        ({}, {}, {}, {}),
        ({}, LOCAL, {}, LOCAL),
        (LOCAL, LOCAL, LOCAL, LOCAL),
        # what nobody here knows stays, and so does the data root
        ({"data-root": "/data", "dns": ["1.1.1.1"]}, LOCAL, {}, {**LOCAL, "data-root": "/data", "dns": ["1.1.1.1"]}),
        ({"data-root": "/data"}, {"data-root": "/nvme"}, {}, {"data-root": "/nvme"}),
        # objects are merged key by key; ours win
        ({"features": {"x": 1, "cdi": False}}, {"features": {"cdi": True}}, {}, {"features": {"x": 1, "cdi": True}}),
        ({"runtimes": {"kata": {"path": "k"}}}, {"runtimes": {"nvidia": {}}}, {}, {
            "runtimes": {"kata": {"path": "k"}, "nvidia": {}}
        }),
        # options of one log driver are errors with another
        ({"log-opts": {"labels": "x"}}, LOCAL, {}, LOCAL),
        ({"log-driver": "local", "log-opts": {"compress": "false"}}, LOCAL, {}, {
            **LOCAL, "log-opts": {"compress": "false", "max-size": "100m"}
        }),
        ({"log-opts": {"max-size": "1m"}}, {"log-driver": "journald"}, {}, {"log-driver": "journald"}),
        # lists of registries are united, other lists are the last word
        ({"insecure-registries": ["a:1", "b:2"]}, {"insecure-registries": ["c:3", "a:1"]}, {}, {
            "insecure-registries": ["c:3", "a:1", "b:2"]
        }),
        ({"dns": ["1.1.1.1"]}, {"dns": ["9.9.9.9"]}, {}, {"dns": ["9.9.9.9"]}),
        # what we wanted before and want no more goes; what somebody changed in it since stays
        ({"runtimes": {"nvidia": {}, "kata": {}}}, {}, {"runtimes": {"nvidia": {}}}, {"runtimes": {"kata": {}}}),
        ({"runtimes": {"nvidia": {}}, "dns": []}, {}, {"runtimes": {"nvidia": {}}}, {"dns": []}),
        ({"registry-mirrors": ["a", "b"]}, {"registry-mirrors": ["c"]}, {"registry-mirrors": ["a"]}, {
            "registry-mirrors": ["c", "b"]
        }),
        ({"registry-mirrors": ["a", "b"]}, {}, {"registry-mirrors": ["a"]}, {"registry-mirrors": ["b"]}),
        ({"debug": False}, {}, {"debug": True}, {"debug": False}),
    ],
)  # fmt: skip
def test_merge(there: dict[str, Any], wanted: dict[str, Any], last: dict[str, Any], merged: dict[str, Any]) -> None:
    text, record = json.dumps(there), role.record("", last)
    assert role.merged_daemon(text, wanted, record) == merged
    again = json.dumps(merged)
    assert role.merged_daemon(again, wanted, role.record("", wanted)) == merged


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ""),
        ("\n", ""),
        ("{}", ""),
        ('{"debug": true,}', "is not valid JSON"),
        ("[]", "is valid JSON, but not an object"),
        ('{"debug": true', "is not valid JSON"),
    ],
)
def test_what_cannot_be_merged_with(text: str, problem: str) -> None:
    assert role.daemon_problem(text).startswith(problem)
    assert bool(role.daemon_problem(text)) == bool(problem)


def test_a_text_that_says_the_same_stays_as_it_is_written() -> None:
    text = '{"live-restore":true,\n  "log-driver": "local"}'
    assert role.daemon_text(text, {"log-driver": "local", "live-restore": True}) == text
    assert role.changed_keys(text, {"log-driver": "local", "debug": True}) == ["debug", "live-restore"]
    assert json.loads(role.daemon_text(text, {"debug": True})) == {"debug": True}
    assert role.daemon_text("", {}) == "{}\n"


def test_a_record_grows_by_packages_and_keeps_the_daemon() -> None:
    first = role.record("", installed=["docker-ce"])
    assert role.recorded(first) == {"packages": ["docker-ce"], "daemon": None}
    second = role.record(first, {"debug": True})
    assert role.recorded(role.record(second, installed=["containerd.io"])) == {
        "packages": ["containerd.io", "docker-ce"], "daemon": {"debug": True},
    }  # fmt: skip
    assert role.recorded("") == {"packages": [], "daemon": None}


DAEMON, KEPT = "/etc/docker/daemon.json", ".orig"

AS_FOUND = {"mode": "0600", "owner": "0", "group": "103"}


def files(daemon: str | None, before: str | None = None, repo_before: str | None = None) -> dict[str, Any]:
    texts = {DAEMON: daemon, DAEMON + KEPT: before, "/r.list": None, "/r.list" + KEPT: repo_before}
    absent = {"type": "absent", "content": ""}
    there = {
        path: {"type": "file", "content": text, "mode": "0600", "uid": 0, "gid": 103}
        for path, text in texts.items()
        if text is not None
    }
    return {"files": {**dict.fromkeys(texts, absent), **there}}


@pytest.mark.parametrize(
    ("host", "ours", "rows"),
    [
        (files(None), None, []),
        (files('{"dns": []}'), None, []),  # never ours
        (files('{"debug": true}'), {"debug": True}, [{"path": DAEMON, "state": "restored", "original": DAEMON + KEPT}]),
        (files('{"debug": true, "dns": []}', '{"dns": []}'), {"debug": True}, [
            {"path": DAEMON, "state": "restored", "original": DAEMON + KEPT}
        ]),
        # edited since: our keys go, theirs stay
        (files('{"debug": true, "dns": ["9.9.9.9"]}', '{"dns": []}'), {"debug": True}, [
            {"path": DAEMON, "content": '{\n  "dns": [\n    "9.9.9.9"\n  ]\n}\n', **AS_FOUND}
        ]),
        (files('{"debug": true}', '{"dns": []}'), {"debug": True}, [{"path": DAEMON, "state": "absent"}]),
        (files(None, None, "deb x"), None, [{"path": "/r.list", "state": "restored", "original": "/r.list" + KEPT}]),
    ],
)  # fmt: skip
def test_removal_leaves_the_host_as_it_was_found(
    host: dict[str, Any], ours: dict[str, Any] | None, rows: list[dict[str, str]]
) -> None:
    record = role.record("", ours) if ours else ""
    paths = {"ours": ["/key"], "shared": ["/r.list"], "daemon": [DAEMON]}
    assert role.undone(host, paths, record, KEPT) == [{"path": "/key", "state": "absent"}, *rows]


def test_files_are_put_back_as_they_were_read() -> None:
    assert role.put_back(files("{}"), [DAEMON, "/r.list"]) == [
        {"path": DAEMON, "content": "{}", **AS_FOUND}, {"path": "/r.list", "state": "absent"},
    ]  # fmt: skip


def test_an_error_names_the_filter() -> None:
    with pytest.raises(AnsibleFilterError, match="docker_engine: decide: KeyError"):
        role.FilterModule().filters()["docker_engine_decision"]({}, {})


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"packages": ["docker-ce", "containerd.io"]}, ["packages: docker-ce containerd.io"]),
        ({"repository": "/etc/apt/sources.list.d/docker.sources"}, ["/etc/apt/sources.list.d/docker.sources"]),
        ({"keys": ["data-root", "log-driver"]}, ["/etc/docker/daemon.json: data-root log-driver"]),
        ({"unread": True}, ["restart of docker.service, which has not read its configuration"]),
        ({"proxy": "/etc/systemd/system/docker.service.d/p.conf"}, ["/etc/systemd/system/docker.service.d/p.conf"]),
        ({"stopped": True, "packages": ["docker-ce"]}, ["packages: docker-ce", "start of docker.service"]),
    ],
)
def test_changes_of_a_busy_host(changed: dict[str, Any], found: list[str]) -> None:
    nothing = {"packages": [], "repository": "", "keys": [], "proxy": "", "unread": False, "stopped": False}
    due = {**nothing, **changed}
    assert role.waiting(due, "/etc/docker/daemon.json") == found


@pytest.mark.parametrize(
    ("rows", "restored"),
    [
        ([], False),
        ([{"path": "/a", "state": "absent"}], False),
        ([{"path": "/b", "state": "restored", "original": "/b.orig"}], False),
        ([{"path": "/a", "state": "restored", "original": "/a.orig"}], True),
    ],
)
def test_a_restored_original(rows: list[dict[str, str]], restored: bool) -> None:
    assert role.is_restored(rows, "/a") == restored


@pytest.mark.parametrize(
    ("names", "versioned", "specs"),
    [
        ([], ["docker-ce"], []),
        (["docker-ce", "containerd.io"], [], ["docker-ce", "containerd.io"]),
        (["docker-ce", "containerd.io"], ["docker-ce"], ["docker-ce=5:29.1.3*", "containerd.io"]),
    ],
)
def test_package_specs(names: list[str], versioned: list[str], specs: list[str]) -> None:
    assert role.package_specs(names, versioned, "=5:29.1.3*") == specs


def test_certificates_of_registries() -> None:
    path = "/etc/docker/certs.d/r.example.com:5000/ca.crt"
    entry = {"path": path, "content": "PEM", "original": f"{path}.orig", "recorded": True}
    assert role.ca_files({}, ".orig") == []
    assert role.ca_files({"r.example.com:5000": "PEM"}, ".orig") == [entry]
