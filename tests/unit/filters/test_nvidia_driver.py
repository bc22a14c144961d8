"""Pending changes of role nvidia_driver: the list is empty if nothing is pending."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import nvidia_driver

QUIET: dict[str, Any] = {
    "version": "580",
    "missing": [],
    "misfit": [],
    "fabric_unequal": [],
    "fabric_surplus": [],
    "override_stale": False,
    "reboot": True,
}
LOADED_570 = "module 570.86.15 is loaded, 580.178.04 is on disk"


@pytest.mark.parametrize(
    ("wanted", "reasons", "found"),
    [
        ({}, [], []),
        ({"missing": ["nvidia-open"]}, [], ["install nvidia-open"]),
        ({"missing": ["nvidia-open"], "misfit": ["570.86.15"]}, [], ["change the driver to 580"]),
        ({"fabric_unequal": ["nvidia-fabricmanager"]}, [], ["change nvidia-fabricmanager to the driver's version"]),
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
