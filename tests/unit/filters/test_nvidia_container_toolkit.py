"""Pending changes of role nvidia_container_toolkit: the list is empty if nothing is pending."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import nvidia_container_toolkit

TOOLKIT: dict[str, Any] = {"version": "1.20.0", "misfit": [], "config": "", "unwatched": False, "undescribed": False}


@pytest.mark.parametrize(
    ("state", "mode", "found"),
    [
        ({}, "auto", []),
        ({"config": '[nvidia-container-runtime]\nmode = "cdi"\n'}, "cdi", []),
        ({"config": '#mode = "cdi"\nmode = "auto"\n'}, "cdi", ["set the runtime's mode to cdi and restart the engine"]),
        ({"misfit": ["b", "a"]}, "auto", ["install a, b 1.20.0 and restart the engine"]),
        ({"unwatched": True}, "auto", ["start nvidia-cdi-refresh.path and reload systemd"]),
        ({"undescribed": True}, "auto", ["write the CDI specification and restart the engine"]),
    ],
)
def test_changes_of_the_toolkit(state: dict[str, Any], mode: str, found: list[str]) -> None:
    assert nvidia_container_toolkit.changes(TOOLKIT | state, mode) == found
