"""Findings about GPUs without load. Values are made up after the documentation of nvidia-smi: none is from hardware."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.checks.check_levels import judge
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import Fleet
from ddp_play.checks.gpu_checks import RULES, gpu_states
from tests.unit.build import gpus
from tests.unit.checks.fleets import ASKED, fleet

WELL = {
    "persistence_mode": "Enabled", "ecc.mode.current": "Enabled", "mig.mode.current": "Disabled",
    "power.limit": "700.00", "clocks.max.sm": "1980",
    "vbios_version": "96.00.74.00.01", "inforom.img": "G520.0200.00.05",
    "pcie.link.width.current": "16", "pcie.link.width.max": "16", "ecc.errors.uncorrected.volatile.total": "0",
    "gpu_recovery_action": "None", "fabric.state": "Completed", "fabric.status": "Success",
    "clocks_event_reasons.hw_slowdown": "Not Active", "clocks_event_reasons.hw_thermal_slowdown": "Not Active",
    "clocks_event_reasons.hw_power_brake_slowdown": "Not Active", "remapped_rows.uncorrectable": "0",
    "remapped_rows.pending": "No", "remapped_rows.failure": "No", "nvlinks": {"active": 18, "inactive": 0},
}  # fmt: skip


def states(**changed: Any) -> dict[str, Any]:
    """Two GPUs, the second of which has these fields; None: it does not have one."""
    second = {name: value for name, value in {**WELL, **changed}.items() if value is not None}
    return {"GPU-0": {"index": "0", **WELL}, "GPU-1": {"index": "1", **second}}


def with_gpus(h2: dict[str, Any] | None = None, reading: Any = None) -> Fleet:
    """Three hosts with two GPUs each; `h2`: fields of its second one."""
    changes: dict[str, dict[str, Any]] = {}
    for name in ("h1", "h2", "h3"):
        value = states(**(h2 or {})) if name == "h2" else states()
        changes[name] = {"facts.gpus": gpus(2), "gpu_states": value}
    if reading is not None:
        changes["h2"]["gpu_states"] = reading
    return fleet(**changes)


def bad(found: Fleet) -> list[Finding]:
    return [row for row in gpu_states(found) if row.status is not Status.OK]


def test_gpus_that_are_well_pass() -> None:
    rows = list(gpu_states(with_gpus()))
    assert {row.status for row in rows} == {Status.OK}
    assert {row.check for row in rows} >= {*RULES, "gpu ecc mode", "version: gpu vbios"}
    assert not any(row.check in RULES for row in judge(fleet(), "quick", ASKED)), "hosts without GPUs"


DEFECTS = (
    ({"ecc.errors.uncorrected.volatile.total": "2"}, "gpu memory errors", Status.FAIL,
     "GPU 1: 2 uncorrected since the driver was loaded"),
    ({"remapped_rows.pending": "Yes"}, "gpu row remapping", Status.FAIL, "GPU 1: a remapped row waits for a reset"),
    ({"remapped_rows.failure": "Yes"}, "gpu row remapping", Status.FAIL, "GPU 1: a row could not be remapped"),
    ({"remapped_rows.uncorrectable": "513"}, "gpu row remapping", Status.FAIL, "GPU 1: 513 rows remapped"),
    ({"gpu_recovery_action": "Reset"}, "gpu recovery action", Status.FAIL, "GPU 1: Reset"),
    ({"pcie.link.width.current": "8"}, "gpu pcie width", Status.FAIL, "GPU 1: x8 of x16"),
    ({"clocks_event_reasons.hw_thermal_slowdown": "Active"}, "gpu slowdown", Status.WARN, "GPU 1: thermal slowdown"),
    ({"fabric.state": "In Progress", "fabric.status": None}, "gpu fabric", Status.FAIL, "GPU 1: In Progress, Success"),
    ({"nvlinks": {"active": 17, "inactive": 1}}, "gpu nvlinks", Status.FAIL, "GPU 1: 1 of 18 links inactive"),
    ({"ecc.mode.current": "Disabled"}, "gpu ecc mode", Status.FAIL, "1 x Disabled, 1 x Enabled"),
    ({"mig.mode.current": "Enabled"}, "gpu mig mode", Status.FAIL, "1 x Disabled, 1 x Enabled"),
    ({"persistence_mode": "Disabled"}, "gpu persistence", Status.WARN, "1 x Disabled, 1 x Enabled"),
    ({"power.limit": "500.00"}, "gpu power limit", Status.WARN, "1 x 500.00, 1 x 700.00"),
    ({"clocks.max.sm": "1755"}, "gpu clock limit", Status.WARN, "1 x 1755, 1 x 1980"),
    ({"nvlinks": None}, "gpu nvlinks in use", Status.WARN, "1 x 0 links, 1 x 18 links"),
    ({"nvlinks": {"active": 0, "inactive": 18}}, "gpu nvlinks in use", Status.WARN, "1 x 0 links, 1 x 18 links"),
    ({"vbios_version": "96.00.61"}, "version: gpu vbios", Status.WARN, "1 x 96.00.61, 1 x 96.00.74.00.01"),
)  # fmt: skip


@pytest.mark.parametrize(("changed", "check", "status", "value"), DEFECTS)
def test_a_defect_is_one_finding_of_its_host(changed: dict[str, Any], check: str, status: Status, value: str) -> None:
    (found,) = bad(with_gpus(changed))
    assert (found.check, found.status, found.where, found.value) == (check, status, ("h2",), value)
    assert all((found.why, found.command, found.limit, found.source, found.look))


def test_what_a_gpu_does_not_have_is_not_held_against_it() -> None:
    without: dict[str, Any] = dict.fromkeys(WELL)
    assert bad(fleet(h1={"facts.gpus": gpus(2), "gpu_states": states(**without)})) == []
    without["nvlinks"] = {"active": 0, "inactive": 18}
    assert bad(fleet(h1={"facts.gpus": gpus(2), "gpu_states": states(**without)})) == [], "no bridge is plugged in"


OLD = {name: None for name in WELL if name.startswith(("clocks_event", "gpu_recovery", "fabric", "nvlinks"))}


def test_what_no_gpu_of_a_host_has_is_no_pass() -> None:
    second = states(**OLD)["GPU-1"]
    rows = list(gpu_states(fleet(h1={"facts.gpus": gpus(2), "gpu_states": {"GPU-0": {**second, "index": "0"},
                                                                           "GPU-1": second}})))  # fmt: skip
    assert {row.check for row in rows} & {*RULES} == {"gpu memory errors", "gpu row remapping", "gpu pcie width"}
    assert {row.status for row in rows} == {Status.OK}


ERRORS = (
    ("ecc.errors.uncorrected.volatile.total", "[GPU is lost]", "gpu memory errors"),
    ("ecc.errors.uncorrected.volatile.total", "many", "gpu memory errors"),
    ("remapped_rows.pending", "[Unknown Error]", "gpu row remapping"),
    ("gpu_recovery_action", "[GPU requires reset]", "gpu recovery action"),
    ("pcie.link.width.current", "[Unknown Error]", "gpu pcie width"),
    ("clocks_event_reasons.hw_slowdown", "[Unknown Error]", "gpu slowdown"),
    ("fabric.state", "[Unknown Error]", "gpu fabric"),
    ("ecc.mode.current", "[GPU requires reset]", "gpu ecc mode"),
)


@pytest.mark.parametrize(("name", "error", "check"), ERRORS)
def test_an_error_in_place_of_a_value_never_passes(name: str, error: str, check: str) -> None:
    (found,) = [row for row in gpu_states(with_gpus({name: error})) if row.check == check and "h2" in row.where]
    assert (found.status, found.broken, found.value) == (Status.UNCHECKED, True, f"GPU 1: {name} {error}")


def test_a_gpu_of_which_nvidia_smi_tells_nothing_does_not_pass() -> None:
    rows = [row for row in gpu_states(with_gpus(reading={"GPU-0": {"index": "0", **WELL}})) if "h2" in row.where]
    assert {row.check for row in rows} >= {*RULES, "gpu ecc mode"}
    assert {(row.status, row.value, row.broken) for row in rows} == {
        (Status.UNCHECKED, "nvidia-smi tells nothing of GPU 1 (GPU-1)", True)
    }


def test_a_tool_that_hangs_never_passes() -> None:
    rows = bad(with_gpus(reading={"problem": "no answer within 10 s"}))
    assert {(row.status, row.where, row.broken) for row in rows} == {(Status.UNCHECKED, ("h2",), True)}
    assert {row.check for row in rows} >= set(RULES)
    rows = bad(with_gpus(reading=[7]))
    assert {row.status for row in rows} == {Status.UNCHECKED}


def test_gpus_that_nobody_tells_of_do_not_pass() -> None:
    rows = [row for row in gpu_states(with_gpus(reading={})) if row.check in RULES and row.where == ("h2",)]
    assert {row.check for row in rows} == {*RULES}
    assert {(row.status, row.value) for row in rows} == {(Status.UNCHECKED, "nvidia-smi tells of no GPU")}
