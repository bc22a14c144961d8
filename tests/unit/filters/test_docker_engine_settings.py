"""Keys of daemon.json by setting, and limits that a host cannot provide."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.ddp.play.plugins.filter import docker_engine_settings

PLAIN: dict[str, Any] = {
    "log-driver": "journald",
    "log-opts": {"max-size": "100m", "max-file": 3},
    "live-restore": True,
    "data-root": "",
    "default-ulimits": {},
    "registry-mirrors": [],
    "insecure-registries": [],
    "cdi": False,
    "nvidia-runtime": False,
}
PLAIN_PART = {"log-driver": "journald", "live-restore": True}
NVIDIA = {"runtimes": {"nvidia": {"path": "nvidia-container-runtime", "args": []}}}
# /proc/1/limits of Linux 6.1
LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max core file size        0                    unlimited            bytes
Max open files            1024                 4096                 files
Max locked memory         8388608              8388608              bytes
"""
HARD = {"Max core file size": "unlimited", "Max open files": "4096", "Max locked memory": "8388608"}


@pytest.mark.parametrize(
    ("changed", "extra", "added"),
    [
        ({}, {}, {}),
        ({"log-driver": "local"}, {}, {"log-driver": "local", "log-opts": {"max-size": "100m", "max-file": "3"}}),
        ({"data-root": "/data/docker"}, {}, {"data-root": "/data/docker"}),
        ({"registry-mirrors": ["https://m.example.com"]}, {}, {"registry-mirrors": ["https://m.example.com"]}),
        ({"insecure-registries": ["r:5000"]}, {}, {"insecure-registries": ["r:5000"]}),
        ({"cdi": True, "nvidia-runtime": True}, {}, {"features": {"cdi": True}, **NVIDIA}),
        ({"cdi": True}, {"features": {"x": True}}, {"features": {"cdi": True, "x": True}}),
        ({}, {"live-restore": False, "debug": True}, {"live-restore": False, "debug": True}),
    ],
)
def test_daemon_part(changed: dict[str, Any], extra: dict[str, Any], added: dict[str, Any]) -> None:
    found = docker_engine_settings.daemon_part({**PLAIN, **changed}, extra)
    assert found == {**PLAIN_PART, **added}


@pytest.mark.parametrize(("capabilities", "hard"), [("000001ffffffffff", {}), ("00000000a80425fb", HARD)])
def test_hard_limits(capabilities: str, hard: dict[str, str]) -> None:
    status = {"content": f"Name:\tsystemd\nCapPrm:\t000001ffffffffff\nCapBnd:\t{capabilities}\n"}
    state = {"files": {"/proc/1/status": status, "/proc/1/limits": {"content": LIMITS}}}
    assert docker_engine_settings.hard_limits(state) == hard


def test_a_status_without_capabilities_is_an_error() -> None:
    state = {"files": {"/proc/1/status": {"content": ""}, "/proc/1/limits": {"content": LIMITS}}}
    with pytest.raises(AnsibleFilterError, match="CapBnd"):
        docker_engine_settings.hard_limits(state)


@pytest.mark.parametrize(
    ("wanted", "hard", "values", "lowered"),
    [
        ({}, HARD, {}, []),
        ({"nofile": 131072}, {}, {"nofile": 131072}, []),
        ({"nofile": 1024}, HARD, {"nofile": 1024}, []),
        ({"nofile": 131072}, HARD, {"nofile": 4096}, ["nofile 4096 instead of 131072"]),
        ({"memlock": -1, "core": -1}, HARD, {"memlock": 8388608, "core": -1}, ["memlock 8388608 instead of -1"]),
        ({"nproc": 500}, HARD, {"nproc": 500}, []),
        ({"rtprio": "99"}, HARD, {"rtprio": 99}, []),
    ],
)
def test_ulimits(wanted: dict[str, Any], hard: dict[str, str], values: dict[str, int], lowered: list[str]) -> None:
    found = docker_engine_settings.ulimits(wanted, hard)
    assert found == {name: {"Name": name, "Soft": value, "Hard": value} for name, value in values.items()}
    assert docker_engine_settings.lowered(found, wanted) == lowered


@pytest.mark.parametrize(
    ("started", "files", "found"),
    [
        (50.0, {}, False),
        (50.0, {"/daemon.json": 49.0, "/proxy.conf": 49.0}, False),
        (50.0, {"/daemon.json": 51.0}, True),
        (50.0, {"/daemon.json": 49.0, "/proxy.conf": 51.0}, True),
        (0, {"/daemon.json": 51.0}, False),
    ],
)
def test_an_engine_that_started_before_a_file_was_written_has_not_read_it(
    started: float, files: dict[str, float], found: bool
) -> None:
    paths = ["/daemon.json", "/proxy.conf"]
    entries = {path: {"type": "file" if path in files else "absent", "mtime": files.get(path, 0)} for path in paths}
    state = {"units": {"docker.service": {"started": started}}, "files": entries}
    assert docker_engine_settings.unread(state, paths) is found


def test_daemon_part_makes_no_deep_copy() -> None:
    """A deep copy of a value of Ansible's copies its template engine with all variables, which takes seconds."""

    class Lazy(dict[str, Any]):
        def __deepcopy__(self, memo: object) -> Lazy:
            raise AssertionError("copied")

    found = docker_engine_settings.daemon_part({**PLAIN, "cdi": True}, Lazy(features=Lazy(x=True)))
    assert found["features"] == {"cdi": True, "x": True}
