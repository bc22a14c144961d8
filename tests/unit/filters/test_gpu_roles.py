"""What the GPU roles would do that running work notices: the list is empty where nothing waits."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import nvidia_container_toolkit, nvidia_driver

QUIET: dict[str, Any] = {
    "version": "580",
    "missing": [],
    "misfit": [],
    "fabric_unequal": [],
    "fabric_surplus": [],
    "override_stale": False,
    "reboot": True,
}
TOOLKIT: dict[str, Any] = {"version": "1.20.0", "misfit": [], "config": "", "unwatched": False, "undescribed": False}
LOADED_570 = "module 570.86.15 is loaded, 580.178.04 is on disk"


@pytest.mark.parametrize(
    ("wanted", "reasons", "found"),
    [
        ({}, [], []),
        ({"missing": ["nvidia-open"]}, [], ["install nvidia-open"]),
        ({"missing": ["nvidia-open"], "misfit": ["570.86.15"]}, [], ["move the driver to 580"]),
        ({"fabric_unequal": ["nvidia-fabricmanager"]}, [], ["move nvidia-fabricmanager to the driver's version"]),
        ({"fabric_surplus": ["nvidia-fabricmanager"]}, [], ["remove nvidia-fabricmanager"]),
        ({"override_stale": True}, [], ["restart nvidia-persistenced and reload systemd"]),
        ({}, [LOADED_570], [f"reboot ({LOADED_570})"]),
        ({"reboot": False}, [LOADED_570], []),
    ],
)
def test_changes_of_the_driver(wanted: dict[str, Any], reasons: list[str], found: list[str]) -> None:
    facts = {"reboot": {"needed": bool(reasons), "reasons": reasons}}
    assert nvidia_driver.changes(facts, QUIET | wanted) == found


@pytest.mark.parametrize(
    ("reasons", "users", "found"),
    [
        ([], [], []),
        (["1 container running: db (pg)"], [], ["1 container running: db (pg)"]),
        (
            [],
            [{"name": "python3", "pid": 7}, {"name": "vllm", "pid": 8}],
            ["GPUs are in use by python3 pid 7, vllm pid 8"],
        ),
    ],
)
def test_who_keeps_the_driver_as_it_is(reasons: list[str], users: list[dict[str, Any]], found: list[str]) -> None:
    assert nvidia_driver.occupants(reasons, users) == found


@pytest.mark.parametrize(
    ("state", "mode", "found"),
    [
        ({}, "auto", []),
        ({"config": '[nvidia-container-runtime]\nmode = "cdi"\n'}, "cdi", []),
        ({"config": '#mode = "cdi"\nmode = "auto"\n'}, "cdi", ["set the runtime's mode to cdi and restart the engine"]),
        ({"misfit": ["b", "a"]}, "auto", ["install a, b 1.20.0 and restart the engine"]),
        ({"unwatched": True}, "auto", ["start nvidia-cdi-refresh.path and reload systemd"]),
        ({"undescribed": True}, "auto", ["describe the GPUs for CDI and restart the engine"]),
    ],
)
def test_changes_of_the_toolkit(state: dict[str, Any], mode: str, found: list[str]) -> None:
    assert nvidia_container_toolkit.changes(TOOLKIT | state, mode) == found
