"""Tuning of role base_os: opt-in, state decides, conflicts with tuned, what deprovision gives back."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.ddp.play.plugins.filter import base_os_tuning as tuning

POLICIES = [f"{tuning.CPUFREQ}/policy{number}/scaling_governor" for number in (0, 1)]
EMPTY = {"profile": "", "governor": "", "hugepages": ""}
NOTHING: dict[str, Any] = {
    "problems": [],
    "files": [],
    "unwanted": [tuning.FILE],
    "wrong": [],
    "profile": "",
    "packages": [],
    "units": [],
    "record": {},
}


def state(
    governors: tuple[str, ...] = ("powersave", "powersave"),
    hugepages: str = "always [madvise] never\n",
    tuned: str = "",
    mode: str = "",
) -> dict[str, Any]:
    """A host; `tuned` is its active profile, and tuned runs if there is one."""
    text = "".join(f"{path}:{value}\n" for path, value in zip(POLICIES, governors, strict=False))
    active = f"Current active profile: {tuned}\n" if tuned else "No current active profile.\n"
    absent = {"type": "absent", "content": ""}
    known = {"type": "file", "content": "performance powersave \n"} if governors else absent
    return {
        "commands": {
            "governors": {"rc": 0, "stdout": text},
            "tuned": {"rc": 0, "stdout": active},
            "tuned_mode": {"rc": 0, "stdout": mode},
        },
        "files": {
            tuning.GOVERNORS: known,
            tuning.HUGEPAGES: {"type": "file", "content": hugepages} if hugepages else absent,
        },
        "units": {tuning.UNIT: {"active": "active" if tuned else "inactive"}},
    }


def decide(host: dict[str, Any], **wanted: str) -> dict[str, Any]:
    found: dict[str, Any] = tuning.decide(host, {**EMPTY, **wanted}, False)
    return found


@pytest.mark.parametrize("host", [state(), state(tuned="balanced"), state((), "")])
def test_without_settings_nothing_is_touched(host: dict[str, Any]) -> None:
    assert decide(host) == NOTHING


def test_a_container_has_no_kernel_of_its_own() -> None:
    wanted = {"governor": "performance", "hugepages": "never", "profile": "x"}
    assert tuning.decide(state(tuned="balanced"), wanted, True) == NOTHING


def test_a_governor_is_set_and_recorded_by_policy() -> None:
    found = decide(state(("powersave", "performance")), governor="performance")
    assert found["wrong"] == ["CPU governor powersave (wanted: performance)"]
    line = "w /sys/devices/system/cpu/cpufreq/policy*/scaling_governor - - - - performance\n"
    assert found["files"] == [{"path": tuning.FILE, "content": tuning.HEADER + line}]
    assert found["unwanted"] == []
    assert found["record"] == {"governors": f"{POLICIES[0]}:powersave\n{POLICIES[1]}:performance"}
    assert decide(state(("performance", "performance")), governor="performance")["wrong"] == []


def test_huge_pages() -> None:
    found = decide(state(), hugepages="never")
    assert found["wrong"] == ["transparent huge pages madvise (wanted: never)"]
    assert found["files"][0]["content"].endswith("w /sys/kernel/mm/transparent_hugepage/enabled - - - - never\n")
    assert found["record"] == {"hugepages": f"{tuning.HUGEPAGES}:madvise"}
    assert decide(state(), hugepages="madvise")["wrong"] == []


def test_a_host_without_frequencies_and_huge_pages_is_left_alone() -> None:
    found = decide(state((), ""), governor="performance", hugepages="never")
    assert (found["problems"], found["wrong"], found["files"]) == ([], [], [])


def test_a_profile_of_tuned() -> None:
    found = decide(state(tuned="balanced", mode="auto\n"), profile="hpc-compute")
    assert (found["wrong"], found["profile"]) == (["tuned profile balanced (wanted: hpc-compute)"], "hpc-compute")
    assert (found["packages"], found["units"], found["files"]) == (["tuned"], [tuning.UNIT], [])
    assert found["record"] == {"tuned_profile": "balanced", "tuned_mode": "auto"}
    there = decide(state(tuned="hpc-compute"), profile="hpc-compute")
    assert (there["wrong"], there["profile"], there["units"]) == ([], "", [tuning.UNIT])
    assert decide(state(), profile="hpc-compute")["wrong"] == ["tuned profile none (wanted: hpc-compute)"]


@pytest.mark.parametrize(
    ("host", "wanted", "problem"),
    [
        (
            state(),
            {"profile": "x", "governor": "performance"},
            "base_os_tuned_profile and base_os_cpu_governor are set",
        ),
        (state(tuned="balanced"), {"hugepages": "never"}, "tuned is active (profile balanced)"),
        (state(), {"governor": "ondemand"}, "no governor ondemand (it has performance powersave)"),
    ],
)
def test_what_cannot_be_done_is_named(host: dict[str, Any], wanted: dict[str, str], problem: str) -> None:
    (found,) = decide(host, **wanted)["problems"]
    assert problem in found


RECORD = {"governors": f"{POLICIES[0]}:powersave\n{POLICIES[1]}:performance", "hugepages": f"{tuning.HUGEPAGES}:always"}


@pytest.mark.parametrize(
    ("host", "record", "lines", "tuned"),
    [
        (state(), {}, [], []),
        (state(tuned="mine"), {}, [], []),
        (
            state(("performance", "performance")),
            RECORD,
            [f"w {POLICIES[0]} - - - - powersave", f"w {tuning.HUGEPAGES} - - - - always"],
            [],
        ),
        (state(("powersave", "performance"), "[always] madvise never"), RECORD, [], []),
        (state((), ""), {**RECORD, "hugepages": ""}, [], []),
        (state(tuned="hpc"), {"tuned_profile": "", "tuned_mode": ""}, [], ["off"]),
        (state(tuned="hpc"), {"tuned_profile": "balanced", "tuned_mode": "manual"}, [], ["profile", "balanced"]),
        (state(tuned="hpc"), {"tuned_profile": "balanced", "tuned_mode": "auto"}, [], ["auto_profile"]),
        (state(tuned="balanced"), {"tuned_profile": "balanced", "tuned_mode": "auto"}, [], []),
    ],
)
def test_what_is_given_back(host: dict[str, Any], record: dict[str, str], lines: list[str], tuned: list[str]) -> None:
    changes = [f"{line.split()[1]} (as before)" for line in lines]
    changes += ["profile of tuned (as before)"] if tuned else []
    assert tuning.restoration(host, record) == {"lines": lines, "tuned": tuned, "changes": changes}
