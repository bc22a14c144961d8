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
    ("kernel", "system", "release", "flavour"),
    [
        ("5.15.0-160-generic", "Ubuntu", "22.04", "generic"),
        ("6.8.0-60-generic", "Ubuntu", "22.04", "generic-hwe-22.04"),
        ("6.8.0-60-generic", "Ubuntu", "24.04", "generic"),
        ("6.14.0-33-generic", "Ubuntu", "24.04", "generic-hwe-24.04"),
        ("6.8.0-60-lowlatency", "Ubuntu", "22.04", "lowlatency-hwe-22.04"),
        ("6.14.0-1015-aws", "Ubuntu", "24.04", "aws"),
        ("6.14.0-1015-azure", "Ubuntu", "24.04", "azure"),
        ("6.1.0-37-amd64", "Debian", "12", "amd64"),
        ("6.1.0-37-cloud-amd64", "Debian", "12", "cloud-amd64"),
        ("6.12.41+deb13-amd64", "Debian", "13", "amd64"),
        ("6.12.41+deb13-cloud-arm64", "Debian", "13", "cloud-arm64"),
        ("6.18.5", "Debian", "12", ""),  # the site's own kernel
        ("6.18.5-site1", "Ubuntu", "24.04", ""),
    ],
)
def test_flavour_of_the_running_kernel(kernel: str, system: str, release: str, flavour: str) -> None:
    assert nvidia_driver.kernel_flavour(kernel, system, release) == flavour


@pytest.mark.parametrize(
    ("kernel", "packages"),
    [
        ("6.8.0-60-generic", ["linux-headers-6.8.0-60-generic", "linux-headers-generic-hwe-22.04"]),
        ("6.18.5-site1", ["linux-headers-6.18.5-site1"]),
    ],
)
def test_headers_of_this_kernel_and_of_the_next(kernel: str, packages: list[str]) -> None:
    assert nvidia_driver.kernel_packages(kernel, "Ubuntu", "22.04", "linux-headers-") == packages


def versions(**found: str) -> dict[str, Any]:
    return {name.replace("_", "-"): {"version": version, "held": True} for name, version in found.items()}


def test_offered_branches() -> None:
    assert nvidia_driver.offered({"580": {"offered": True}, "535": {"offered": False}}) == ["580"]
    assert nvidia_driver.offered({}) == []


@pytest.mark.parametrize(
    ("version", "wanted", "misfit"),
    [
        ("580.178.04-1", "580", []),
        ("580.178.04-0ubuntu1", "580.178.04", []),
        ("1:580.178.04-1.el9", "580", []),
        ("570.86.15-1", "580", ["570.86.15"]),
        ("1:570.86.15-1.el9", "580", ["570.86.15"]),
        ("580.178.04-1", "580.17", ["580.178.04"]),
        ("580.178.04-1", "58", ["580.178.04"]),
    ],
)
def test_versions_that_do_not_fit(version: str, wanted: str, misfit: list[str]) -> None:
    packages = versions(nvidia_open=version, nvidia_settings="1.0-1")
    assert nvidia_driver.misfit(packages, ["nvidia-open", "nvidia-driver-cuda"], wanted) == misfit
    assert nvidia_driver.misfit({}, ["nvidia-open"], wanted) == []


@pytest.mark.parametrize(
    ("version", "unequal"),
    [("580.178.04-1", []), ("580.178.04-0ubuntu1", []), ("580.178.05-1", ["nvidia-fabricmanager"])],
)
def test_fabric_manager_of_another_version(version: str, unequal: list[str]) -> None:
    packages = versions(nvidia_fabricmanager=version, nvidia_open="570.86.15-1")
    assert nvidia_driver.unequal(packages, ["nvidia-fabricmanager"], "580.178.04") == unequal
    assert nvidia_driver.unequal({}, ["nvidia-fabricmanager"], "580.178.04") == []


@pytest.mark.parametrize(
    ("packages", "moving"),
    [
        ({}, ["nvidia-open"]),
        (versions(nvidia_open="570.86.15-1"), ["nvidia-open"]),
        (
            versions(libnvidia_compute="570.86.15-1", nvidia_modprobe="1:570.86.15-1"),
            "libnvidia-compute nvidia-modprobe",
        ),
        (versions(nvidia_settings="1.0-1"), ["nvidia-open"]),
        (versions(libnvidia_compute_570="570.86.15-1", libnvidia_compute_580="580.1-1"), "libnvidia-compute-580"),
        (versions(nvidia_driver_pinning_580="580.1-1"), ["nvidia-open"]),
    ],
)
def test_packages_that_change_version_together(packages: dict[str, Any], moving: list[str] | str) -> None:
    wanted = ["nvidia-open", *moving.split()] if isinstance(moving, str) else moving
    assert nvidia_driver.moving(packages, ["nvidia-open"], "580") == wanted


@pytest.mark.parametrize(
    ("unit", "found"),
    [
        ({"active": "active", "enabled": "enabled"}, []),
        ({"active": "active", "enabled": "static"}, []),
        ({"active": "active", "enabled": "disabled"}, ["nvidia-persistenced"]),
        ({"active": "inactive", "enabled": "enabled"}, ["nvidia-persistenced"]),
        ({}, ["nvidia-persistenced"]),
    ],
)
def test_units_that_must_be_started(unit: dict[str, str], found: list[str]) -> None:
    units = {"nvidia-persistenced": unit} if unit else {}
    assert nvidia_driver.stopped(units, ["nvidia-persistenced"]) == found
    assert nvidia_driver.stopped(units, []) == []


REMEDY = "(to repair: ddp-play provision -i INVENTORY --limit h1 --tags nvidia_driver)"
FAULTS = "files that are missing: /etc/modprobe.d/ddp-nvidia.conf"


@pytest.mark.parametrize(
    ("problems", "file_faults", "source_stale", "found"),
    [
        ([], "", False, []),
        (["nvidia-smi failed: x"], "", False, ["nvidia-smi failed: x"]),
        ([], FAULTS, False, [f"{FAULTS} {REMEDY}"]),
        ([], "", True, [f"its repository or key is not as provisioned {REMEDY}"]),
        (
            ["no CUDA context: x"],
            FAULTS,
            True,
            [
                "no CUDA context: x",
                f"{FAULTS} {REMEDY}",
                f"its repository or key is not as provisioned {REMEDY}",
            ],
        ),
    ],
)
def test_problems_of_the_driver_and_of_files(
    problems: list[str], file_faults: str, source_stale: bool, found: list[str]
) -> None:
    assert nvidia_driver.all_problems(problems, file_faults, source_stale, "h1") == found


SMI, UNINSTALL = "/usr/bin/nvidia-smi", "/usr/bin/nvidia-uninstall"
THEIRS = ("nvidia-utils-580", "libnvidia-compute-580")


@pytest.mark.parametrize(
    ("program", "loaded", "packages", "recorded", "torch", "replace", "uninstaller", "found"),
    [
        ("", "580.1", (), (), "2.13", False, "", ("none", "")),
        (SMI, "580.1", (), (), "2.13", False, UNINSTALL, ("use", "580.1")),
        (SMI, "580.1", ("nvidia-settings", "nvidia-prime"), (), "2.13", False, "", ("use", "580.1")),
        (SMI, "580.1", THEIRS, (), "2.13", False, "", ("use", "580.1")),
        (SMI, "580.1", THEIRS, THEIRS, "2.13", False, "", ("none", "")),
        (SMI, "570.86", THEIRS, THEIRS[:1], "2.13", False, "", ("none", "")),
        (SMI, "570.86", (), (), "2.13", False, "", ("refuse", "570.86 is too old for torch 2.13, which needs 580")),
        (SMI, "570.86", THEIRS, (), "2.13", False, "", ("refuse", "570.86 is too old for torch 2.13, which needs 580")),
        (SMI, "570.86", (), (), "", False, "", ("use", "570.86")),
        (SMI, "", (), (), "2.13", False, "", ("refuse", "its module is not loaded")),
        (SMI, "570.86", (), (), "2.13", True, "", ("none", "")),
        (SMI, "570.86", THEIRS, (), "2.13", True, UNINSTALL, ("none", "")),
        (SMI, "580.1", (), (), "2.13", True, UNINSTALL, ("refuse", f"{UNINSTALL} is still there")),
    ],
)
def test_a_driver_that_this_role_has_not_installed(
    program: str, loaded: str, packages: tuple[str, ...], recorded: tuple[str, ...], torch: str, replace: bool,
    uninstaller: str, found: tuple[str, str],
) -> None:  # fmt: skip
    driver = {"program": program, "uninstaller": uninstaller, "loaded": {"version": loaded}}
    facts = {"driver": driver, "packages": {name: {} for name in packages}, "recorded": list(recorded)}
    decision = nvidia_driver.foreign(facts, torch, "580" if torch else "", replace)
    assert (decision["action"], decision["why"]) == found
    if decision["action"] != "none":
        words = "(libnvidia-compute-580, nvidia-utils-580)" if packages == THEIRS else "no package that this role knows"
        assert words in decision["origin"]
