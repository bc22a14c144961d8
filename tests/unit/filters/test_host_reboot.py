"""Why a host needs a reboot (the list is empty if it needs none), and which units have to work after it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import host_reboot
from ansible_collections.ddp.play.plugins.module_utils import nvidia

DISK = {"version": "580.178.04", "flavour": "open"}
NONE = {"version": "", "flavour": ""}


def gpu(loaded: dict[str, str], disk: dict[str, str], *, nouveau: bool = False) -> dict[str, Any]:
    """As ddp.play.gpu_facts returns it."""
    reasons = nvidia.reboot_reasons(loaded, disk, nouveau)
    return {"driver": {"disk": disk, "loaded": loaded}, "reboot": {"needed": bool(reasons), "reasons": reasons}}


@pytest.mark.parametrize(
    ("mark", "rc", "found"),
    [
        ("absent", 127, []),
        ("absent", 0, []),
        ("file", 127, ["the distribution asks for it (/run/reboot-required)"]),
        ("absent", 1, ["the distribution asks for it (needs-restarting)"]),
    ],
)
def test_what_the_distribution_says(mark: str, rc: int, found: list[str]) -> None:
    state = {"files": {"/run/reboot-required": {"type": mark}}, "commands": {"needs_restarting": {"rc": rc}}}
    assert host_reboot.reasons(state, gpu(NONE, NONE)) == found
    waits = gpu({"version": "570.86.15", "flavour": "open"}, DISK)
    assert host_reboot.reasons(state, waits) == [*found, "NVIDIA driver 580.178.04 is installed, 570.86.15 is loaded"]


@pytest.mark.parametrize(
    ("loaded", "disk", "nouveau", "found"),
    [
        (NONE, NONE, False, []),
        (NONE, NONE, True, []),
        (NONE, DISK, False, []),
        (DISK, DISK, False, []),
        (DISK, NONE, False, []),
        (
            NONE,
            DISK,
            True,
            ["NVIDIA driver 580.178.04 is installed, nouveau is loaded and uses the GPU"],
        ),
        (
            DISK | {"flavour": "proprietary"},
            DISK,
            False,
            ["NVIDIA driver 580.178.04 is installed, the proprietary module is loaded, the open one is on disk"],
        ),
    ],
)
def test_a_driver_that_waits(loaded: dict[str, str], disk: dict[str, str], nouveau: bool, found: list[str]) -> None:
    assert host_reboot.driver_reasons(gpu(loaded, disk, nouveau=nouveau)) == found


def unit(active: str) -> dict[str, str]:
    return {"active": active}


@pytest.mark.parametrize(
    ("state", "names"),
    [
        ({}, []),
        ({"skipped": True, "changed": False}, []),
        ({"units": {}}, []),
        (
            {"units": {"docker.service": unit("active"), "slurmd.service": unit("failed"), "a.service": unit("")}},
            ["docker.service"],
        ),
        ({"units": {"docker.service": unit("activating"), "munge.service": unit("active")}}, ["munge.service"]),
    ],
)
def test_units_that_worked_before(state: dict[str, Any], names: list[str]) -> None:
    """A role that did not read them, as with host_reboot_open, knows of none."""
    assert host_reboot.active(state) == names


@pytest.mark.parametrize(
    ("inactive", "commands"),
    [
        ([], "systemctl --failed"),
        (["docker.service"], "systemctl status docker.service"),
        (["docker.service", "slurmd.service"], "systemctl status docker.service slurmd.service"),
    ],
)
def test_the_command_that_shows_why_a_unit_does_not_run(inactive: list[str], commands: str) -> None:
    assert host_reboot.inspection(inactive) == commands
