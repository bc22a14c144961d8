"""What verify says of an engine: all that is wrong, and nothing that is as wanted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import docker_engine_problems

RUNS = {"load": "loaded", "active": "active", "enabled": "enabled"}
ENGINE = {
    "ServerVersion": "20.10.24+dfsg1",
    "DockerRootDir": "/var/lib/docker",
    "LoggingDriver": "local",
    "LiveRestoreEnabled": True,
}
ANSWER = {"rc": 0, "stdout": json.dumps(ENGINE), "stderr": ""}
# What the client of 20.10 prints where no engine runs; it ends with 0.
ERROR = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
CLIENT_ONLY = {"rc": 0, "stdout": json.dumps({"ServerVersion": "", "ServerErrors": [ERROR]}), "stderr": ""}
WANTED: dict[str, Any] = {
    **dict.fromkeys(("drifted", "users", "to_install", "to_hold", "missing"), ()),
    "unread": False,
    "repository": "",
    "daemon": {"log-driver": "local", "live-restore": True},
    "data_root": "",
    "version": "",
}
FILES = {"/etc/a": {"type": "file"}, "/etc/b": {"type": "absent"}}


def problems(unit: dict[str, str], info: dict[str, Any], **wanted: Any) -> list[str]:
    state = {
        "units": {"docker.service": RUNS | unit, "docker.socket": RUNS},
        "commands": {"info": info},
        "files": FILES,
    }
    found: list[str] = docker_engine_problems.problems(state, WANTED | wanted)
    return found


@pytest.mark.parametrize(
    ("unit", "info", "wanted", "found"),
    [
        ({}, ANSWER, {}, []),
        ({}, ANSWER, {"version": "20.10.24", "data_root": "/var/lib/docker"}, []),
        ({"active": "inactive"}, CLIENT_ONLY, {}, ["docker.service is inactive"]),
        ({"active": "failed", "enabled": "disabled"}, CLIENT_ONLY, {},
         ["docker.service is failed", "docker.service is disabled, so no boot starts it"]),
        ({"load": "masked", "active": "inactive", "enabled": "masked"}, CLIENT_ONLY, {},
         ["docker.service or docker.socket is masked, so that nothing can start the engine, and it is inactive"]),
        ({"load": "not-found", "active": "inactive", "enabled": ""}, {"rc": 127, "stdout": "", "stderr": ""}, {},
         ["there is no docker.service"]),
        ({}, CLIENT_ONLY, {}, [f"the engine does not answer ({ERROR})"]),
        ({}, {"rc": 124, "stdout": "", "stderr": ""}, {}, ["the engine does not answer (exit code 124)"]),
        ({}, {"rc": 1, "stdout": "no json", "stderr": "permission denied\n"}, {},
         ["the engine does not answer (permission denied)"]),
        ({}, ANSWER, {"version": "29.1.3", "data_root": "/data"},
         ["its data-root is /var/lib/docker, wanted /data", "its version is 20.10.24, wanted 29.1.3"]),
        ({}, ANSWER, {"daemon": {"log-driver": "json-file", "live-restore": False}, "unread": True},
         ["its log-driver is local, wanted json-file", "its live-restore is True, wanted False",
          "docker.service has not read its configuration since that changed"]),
        ({}, ANSWER, {"drifted": ["/etc/a", "/etc/b"], "users": ["ops"], "to_hold": ["tini"], "missing": ["apparmor"]},
         ["files that are missing: /etc/b", "files that differ: /etc/a", "users without access: ops",
          "packages not on hold: tini", "packages missing while AppArmor is on: apparmor"]),
    ],
)  # fmt: skip
def test_what_is_wrong(unit: dict[str, str], info: dict[str, Any], wanted: dict[str, Any], found: list[str]) -> None:
    assert problems(unit, info, **wanted) == found


@pytest.mark.parametrize(
    ("info", "version"),
    [
        (ANSWER, "20.10.24+dfsg1"),
        (CLIENT_ONLY, None),
        ({"rc": 0, "stdout": "[]", "stderr": ""}, None),
        ({"rc": 1, "stdout": ANSWER["stdout"], "stderr": ""}, None),
    ],
)
def test_only_an_engine_answers(info: dict[str, Any], version: str | None) -> None:
    assert docker_engine_problems.answer(info).get("ServerVersion") == version


@pytest.mark.parametrize(
    ("service", "socket", "masked"),
    [
        (RUNS, RUNS, False),
        (RUNS | {"enabled": "masked"}, RUNS, True),
        (RUNS, {"load": "masked", "active": "inactive", "enabled": "masked"}, True),
        (RUNS, {"load": "not-found", "active": "inactive", "enabled": ""}, False),
    ],
)
def test_a_unit_that_was_masked_while_it_runs_is_masked_too(
    service: dict[str, str], socket: dict[str, str], masked: bool
) -> None:
    state = {"units": {"docker.service": service, "docker.socket": socket}}
    assert docker_engine_problems.masked(state) == masked


def test_what_provision_would_install_or_write_is_named() -> None:
    wanted = {"to_install": ["docker-buildx-plugin", "apparmor"], "missing": ["apparmor"], "repository": "/etc/r"}
    assert problems({}, ANSWER, **wanted) == [
        "packages that are missing: docker-buildx-plugin",
        "repository or key that differs: /etc/r",
        "packages missing while AppArmor is on: apparmor",
    ]
