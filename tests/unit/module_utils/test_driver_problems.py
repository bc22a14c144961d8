"""Facts of a good host give no problem; each single fault gives its sentence."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.module_utils import driver_problems

VERSION = "580.178.04"
GOOD: dict[str, Any] = {
    "gpus": [{"slot": "0000:1b:00.0"}],
    "driver": {
        "disk": {"version": VERSION, "flavour": "open"},
        "loaded": {"version": VERSION, "flavour": "open"},
        "nouveau": False,
    },
    "kernel": {"running": "6.12.48"},
    "dkms": [{"module": "nvidia", "version": VERSION, "kernel": "6.12.48", "arch": "x86_64", "state": "installed"}],
    "packages": {
        "nvidia-driver-cuda": {"version": f"{VERSION}-1", "held": True},
        "nvidia-fabricmanager": {"version": f"{VERSION}-1", "held": True},
    },
    "units": {
        "nvidia-persistenced": {"active": "active", "enabled": "enabled"},
        "nvidia-fabricmanager": {"active": "active", "enabled": "enabled"},
    },
    "reboot": {"needed": False, "reasons": []},
    "smi": {"driver_version": VERSION, "error": "", "gpus": [{"slot": "0", "fabric_state": "Completed"}]},
    "cuda": {"devices": 1, "error": ""},
}
EXPECT: dict[str, Any] = {
    "version": "580",
    "flavour": "open",
    "packages": ["nvidia-driver-cuda"],
    "same_version": ["nvidia-driver-cuda"],
    "hold": True,
    "dkms": True,
    "loaded": True,
    "gpus": 1,
    "fabric_manager": True,
    "units": ["nvidia-persistenced", "nvidia-fabricmanager"],
}


def test_a_good_host_has_no_problem() -> None:
    assert driver_problems.problems(GOOD, EXPECT) == []


def test_nothing_expected_of_a_good_host() -> None:
    facts = copy.deepcopy(GOOD)
    facts["units"]["nvidia-fabricmanager"] = {"active": "inactive"}
    assert driver_problems.problems(facts, {}) == []


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (
            "packages",
            {"nvidia-fabricmanager": GOOD["packages"]["nvidia-fabricmanager"]},
            "nvidia-driver-cuda is not installed",
        ),
        (
            "packages.nvidia-driver-cuda.version",
            "595.91.07-1",
            "nvidia-driver-cuda is 595.91.07-1, wanted 580",
        ),
        ("packages.nvidia-driver-cuda.held", False, "not on hold: nvidia-driver-cuda"),
        ("packages.nvidia-fabricmanager.version", "580.105.08-1", "they must be equal (CUDA error 802)"),
        ("driver.disk.version", "", "no nvidia module for the running kernel 6.12.48"),
        ("driver.disk.version", "595.91.07", "module on disk is 595.91.07, wanted 580"),
        ("driver.disk.flavour", "proprietary", "module on disk is the proprietary one, wanted open"),
        ("driver.nouveau", True, "nouveau is loaded"),
        ("driver.loaded.version", "", "the nvidia module is not loaded"),
        ("reboot.reasons", ["module 1 is loaded"], "reboot needed: module 1 is loaded"),
        ("dkms", [], "no nvidia module installed for the running kernel 6.12.48"),
        (
            "dkms",
            [{"module": "nvidia", "kernel": "6.1", "state": "installed"}],
            "for the running kernel 6.12.48",
        ),
        ("smi.driver_version", "570.1", "nvidia-smi is of version 570.1, the module is 580.178.04"),
        ("smi.gpus", [], "GPU counts differ: nvidia-smi 0, sysfs 1, inventory 1"),
        ("smi.error", "rc 9: no devices", "nvidia-smi failed: rc 9"),
        ("smi.gpus", [{"slot": "0", "fabric_state": "In Progress"}], "fabric state is not Completed on 0"),
        ("cuda.error", "cuInit 3", "try nvidia_driver_uvm_disable_hmm"),
        ("cuda.error", "cuInit 802", "NVSwitch without a matching fabric manager"),
        ("units.nvidia-persistenced.active", "failed", "nvidia-persistenced is failed, wanted active"),
    ],
)
def test_each_fault_is_named(path: str, value: Any, problem: str) -> None:
    facts = copy.deepcopy(GOOD)
    node = facts
    *parents, last = path.split(".")
    for key in parents:
        node = node[key]
    node[last] = value
    found = driver_problems.problems(facts, EXPECT)
    assert any(problem in sentence for sentence in found), found


def test_fabric_manager_on_a_host_without_nvswitch() -> None:
    facts = copy.deepcopy(GOOD)
    facts["units"]["nvidia-fabricmanager"]["active"] = "failed"
    found = driver_problems.problems(facts, EXPECT | {"fabric_manager": False, "units": []})
    assert found == ["nvidia-fabricmanager is failed on a host without NVSwitch"]


def test_nouveau_that_only_a_reboot_removes_says_so() -> None:
    """A driver on disk, the wrong module in the kernel: the remedy is named, not only the state."""
    reasons = ["nouveau is loaded and uses the GPU"]
    facts = {**GOOD, "driver": {**GOOD["driver"], "nouveau": True}, "reboot": {"needed": True, "reasons": reasons}}
    assert "reboot needed: nouveau is loaded and uses the GPU" in driver_problems.problems(facts, EXPECT)


def test_modules_that_follow_the_kernel_need_no_hold() -> None:
    facts = copy.deepcopy(GOOD)
    facts["packages"]["linux-modules-nvidia-580-server-open-generic"] = {"version": "6.8.0-60.63", "held": False}
    assert driver_problems.problems(facts, EXPECT) == []


RESET = "nvidia-smi --gpu-reset -i 0:1 or a reboot"


@pytest.mark.parametrize(
    ("current", "pending", "wanted", "remedy"),
    [
        ("Disabled", "Disabled", "disabled", ""),
        ("Enabled", "Enabled", "enabled", ""),
        ("Disabled", "Enabled", "", ""),
        ("N/A", "N/A", "disabled", ""),
        ("", "", "disabled", ""),
        ("Enabled", "Enabled", "disabled", f"nvidia-smi -i 0:1 -mig 0 and then {RESET}"),
        ("Disabled", "Disabled", "enabled", f"nvidia-smi -i 0:1 -mig 1 and then {RESET}"),
        ("Disabled", "Enabled", "enabled", RESET),
        ("Disabled", "Enabled", "disabled", "nvidia-smi -i 0:1 -mig 0"),
        ("[N/A]", "[N/A]", "enabled", "has no MIG"),
    ],
)
def test_mig_mode_is_judged_with_its_remedy(current: str, pending: str, wanted: str, remedy: str) -> None:
    facts = copy.deepcopy(GOOD)
    facts["smi"]["gpus"][0].update(slot="0:1", mig=current, mig_pending=pending)
    found = driver_problems.problems(facts, {**EXPECT, "mig": wanted})
    if not remedy:
        assert found == []
        return
    (problem,) = found
    assert problem.startswith("GPU 0:1")
    assert (f"(while nothing uses it: {remedy})" in problem) != (remedy == "has no MIG")
    assert remedy in problem


def foreign(**changes: Any) -> dict[str, Any]:
    """Facts of a host whose driver came from no package, with its modules anywhere."""
    driver = {**GOOD["driver"], "disk": {"version": "", "flavour": ""}}
    return {**GOOD, "packages": {}, "dkms": [], "driver": driver, "units": {}, **changes}


@pytest.mark.parametrize(
    ("changes", "expect", "problem"),
    [
        ({}, {}, ""),
        ({}, {"gpus": 8}, "GPU counts differ: nvidia-smi 1, sysfs 1, inventory 8"),
        (
            {"smi": {**GOOD["smi"], "driver_version": "550.1"}},
            {},
            f"nvidia-smi is of version 550.1, the module is {VERSION}",
        ),
        ({"smi": {**GOOD["smi"], "gpus": [{"slot": "0", "fabric_state": "N/A"}]}}, {}, ""),
        (
            {"smi": {**GOOD["smi"], "gpus": [{"slot": "0", "fabric_state": "In Progress"}]}},
            {},
            "fabric state is not Completed on 0",
        ),
        ({"gpus": [{"slot": "0"}] * 8}, {}, "GPU counts differ: nvidia-smi 1, sysfs 8"),
        ({"gpus": [{"slot": "0"}] * 8, "kernel": {**GOOD["kernel"], "container": True}}, {}, ""),
        ({"cuda": {"devices": 0, "error": "cuInit 802"}}, {}, "no CUDA context: cuInit 802 (NVSwitch"),
        ({}, {"units": ["nvidia-fabricmanager"]}, "nvidia-fabricmanager is absent, wanted active"),
    ],
)
def test_a_driver_that_came_from_no_package(changes: dict[str, Any], expect: dict[str, Any], problem: str) -> None:
    found = driver_problems.problems(foreign(**changes), {"foreign": True, "loaded": True, **expect})
    assert len(found) == bool(problem)
    assert problem in "".join(found)


def test_a_missing_module_is_told_once() -> None:
    found = driver_problems.problems(foreign(), EXPECT)
    assert [text for text in found if text.endswith("the module is ")] == []
    assert any("no nvidia module for the running kernel" in text for text in found)
