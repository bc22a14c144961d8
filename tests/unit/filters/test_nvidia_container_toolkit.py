"""Pending changes of role nvidia_container_toolkit, and what becomes of a toolkit that it has not installed."""

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


PACKAGES = (
    "libnvidia-container1",
    "libnvidia-container-tools",
    "nvidia-container-toolkit-base",
    "nvidia-container-toolkit",
)
NEEDED = "ranks need nvidia-container-toolkit 1.18 or newer"


@pytest.mark.parametrize(
    ("there", "recorded", "replace", "action", "why"),
    [
        ({}, (), False, "none", ""),
        (dict.fromkeys(PACKAGES, "1.20.0-1"), (), False, "use", "nvidia-container-toolkit 1.20.0"),
        (dict.fromkeys(PACKAGES, "1.17.8-1"), PACKAGES, False, "none", ""),
        (dict.fromkeys(PACKAGES, "1.19.1-1"), (), False, "use", "nvidia-container-toolkit 1.19.1"),
        (dict.fromkeys(PACKAGES, "1.19.1-1"), (), True, "none", ""),
        (dict.fromkeys(PACKAGES, "1.9.0-1"), (), True, "none", ""),
        (dict.fromkeys(PACKAGES[3:], "1.9.0-1"), (), False, "refuse", f"nvidia-container-toolkit 1.9.0: {NEEDED}"),
        ({"libnvidia-container1": "1.20.0-1"}, (), False, "none", ""),
        ({"libnvidia-container1": "1.13.0-1"}, (), False, "refuse", f"libnvidia-container1 1.13.0: {NEEDED}"),
        ({"nvidia-docker2": "2.13.0-1"}, (), False, "refuse", f"nvidia-docker2 2.13.0: {NEEDED}"),
        (
            {"nvidia-docker2": "2.14.0-1", **dict.fromkeys(PACKAGES, "1.18.1-1")},
            (),
            False,
            "use",
            "nvidia-container-toolkit 1.18.1",
        ),
    ],
)
def test_a_toolkit_that_this_role_has_not_installed(
    there: dict[str, str], recorded: tuple[str, ...], replace: bool, action: str, why: str
) -> None:
    packages = dict.fromkeys((*PACKAGES, "nvidia-docker2"), "") | there
    state = {"packages": packages, "recorded": list(recorded)}
    found = nvidia_container_toolkit.foreign(state, PACKAGES, "1.20.0", "1.18", replace)
    assert found["action"] == action
    assert not why or found["why"] == why
