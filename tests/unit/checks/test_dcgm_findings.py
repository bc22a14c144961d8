"""The finding of DCGM's diagnostic. All outputs are made up in the form of its documentation: none is from hardware.

Forms: `dcgmi/Diag.cpp`, `nvvs/include/NvvsJsonStrings.h` and `dcgm_errors.h` of github.com/NVIDIA/DCGM, 3.3.8 and
4.6.0, and for DCGM 4 an output that a public repository quotes: of a GB10 (4.2.3, exit code 226), which fails
`software` for its persistence mode. DCGM 2, whose warnings were texts, is there because it costs nothing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ddp_play.checks.check_levels import judge
from ddp_play.checks.dcgm_findings import diagnostic
from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.fleet import BURN_IN, FULL, QUICK, Fleet
from tests.unit.build import gpus
from tests.unit.checks.fleets import ASKED, fleet

TRIAGE, CONFIG = 4, 5
ECC = "Detected 1 volatile double-bit ECC error on GPU 1."
PERSISTENCE = "Persistence Mode: Persistence mode for GPU 0 is disabled."


def result(gpu: int, status: str = "Pass", *warnings: dict[str, Any]) -> dict[str, Any]:
    """A result of DCGM 4."""
    row: dict[str, Any] = {"entity_group": "GPU", "entity_group_id": 1, "entity_id": gpu, "status": status}
    return {**row, "warnings": list(warnings)} if warnings else row


def error(text: str, severity: int = TRIAGE) -> dict[str, Any]:
    return {"error_category": 10, "error_id": 5, "error_severity": severity, "warning": text}


def one_test(name: str, *results: dict[str, Any], summary: str = "Pass", **more: Any) -> dict[str, Any]:
    return {"name": name, "results": list(results), "test_summary": {"status": summary, **more}}


WELL = (
    one_test("software", result(0), result(1)),
    one_test("memory", result(0), result(1), info=["Allocated 83 GB (98.6%)"]),
)


def version_4(*tests: dict[str, Any]) -> dict[str, Any]:
    return {
        "DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": list(tests)}]},
        "entity_groups": [{"entities": [{"device_id": "2330", "entity_id": 0, "serial_num": "165"}]}],
        "metadata": {"Driver Version Detected": "580.82.09", "version": "4.2.3"},
    }


def version_3(*results: Any, name: str = "PCIe") -> dict[str, Any]:
    """Its software tests have one result without a GPU. Lists have null for what had no part."""
    software = [{"name": "Denylist", "results": [{"status": "Pass"}]}, None]
    return {"version": "3.3.8", "Driver Version Detected": "550.54.15", "DCGM GPU Diagnostic": {"test_categories": [
        {"category": "Deployment", "tests": software},
        {"category": "Integration", "tests": [{"name": name, "results": list(results)}]},
    ]}}  # fmt: skip


def answer(output: object, exit_code: int = 0, **more: Any) -> dict[str, Any]:
    text = output if isinstance(output, str) else json.dumps(output, indent=1)
    return {"diagnostic": {"value": {"exit_code": exit_code, "output": text, "errors": "", **more}}, "level": 1}


def diagnosed(dcgm: dict[str, Any], **changes: Any) -> Fleet:
    """One host with two GPUs and DCGM."""
    found = fleet(1, h1={"facts.gpus": gpus(2), "dcgmi": "/usr/bin/dcgmi", **changes})
    return replace(found, hosts=tuple(replace(host, dcgm=dcgm) for host in found.hosts))


def only(found: Fleet) -> Finding:
    (row,) = diagnostic(found)
    assert row.check == "dcgm diag"
    return row


def not_run(found: Fleet) -> tuple[str, bool]:
    row = only(found)
    assert row.status is Status.UNCHECKED, row
    return row.value, row.broken


def test_nothing_is_said_of_hosts_without_gpus_or_without_dcgm() -> None:
    for changes in ({"dcgmi": "/usr/bin/dcgmi"}, {"facts.gpus": gpus(2), "dcgmi": ""}):
        assert list(diagnostic(fleet(1, h1=changes))) == []


def test_a_host_where_all_tests_pass_in_both_forms() -> None:
    row = only(diagnosed(answer(version_4(*WELL))))
    assert (row.status, row.value) == (Status.OK, "level 1: passed software, memory")
    well = [{"gpu_id": str(gpu), "status": "Pass", "info": "24 GB/s"} for gpu in (0, 1)]
    row = only(diagnosed(answer("Successfully ran diagnostic for group.\n" + json.dumps(version_3(*well)) + "\n")))
    assert (row.status, row.value) == (Status.OK, "level 1: passed Denylist, PCIe")


def test_it_belongs_to_the_full_level_and_to_a_burn_in() -> None:
    found = diagnosed(answer(version_4(*WELL)))
    for level, is_there in ((QUICK, False), (FULL, True), (BURN_IN, True)):
        assert any(row.check == "dcgm diag" for row in judge(found, level, ASKED)) is is_there


def test_a_failed_test_fails_with_its_gpus_and_the_message_of_dcgm() -> None:
    bad = one_test("memory", result(0), result(1, "Fail", error(ECC)), summary="Fail")
    row = only(diagnosed(answer(version_4(WELL[0], bad), 226)))
    assert (row.status, row.value) == (Status.FAIL, f"memory on GPU 1: {ECC}")
    assert row.source == "dcgmi diag -r 1 of DCGM 4.2.3"
    assert row.look == "dcgmi diag -r 1"
    assert all((row.why, row.command, row.limit))


@pytest.mark.parametrize("said", [ECC, [ECC], [{"warning": ECC, "error_id": 5}], [{"warnings": ECC}]])
@pytest.mark.parametrize("name", ["gpu_id", "gpu_ids"])
def test_version_3_has_its_message_as_a_text_a_list_or_an_object(said: object, name: str) -> None:
    rows = [{name: "0", "status": "Pass"}, {name: "1", "status": "Fail", "warnings": said}]
    row = only(diagnosed(answer(version_3(None, *rows), 226)))
    assert (row.status, row.value) == (Status.FAIL, f"PCIe on GPU 1: {ECC}")
    assert row.source.endswith("DCGM 3.3.8")


def test_what_dcgm_calls_a_setting_is_a_warning_and_fails_no_fleet() -> None:
    setting = one_test("software", *(result(gpu, "Fail", error(PERSISTENCE, CONFIG)) for gpu in (0, 1)), summary="Fail")
    row = only(diagnosed(answer(version_4(setting, WELL[1]), 226)))
    assert (row.status, row.value) == (Status.WARN, f"software on GPU 0, GPU 1: {PERSISTENCE}")
    bad = one_test("memory", result(1, "Fail", error(ECC)), summary="Fail")
    row = only(diagnosed(answer(version_4(setting, bad), 226)))
    assert row.status is Status.FAIL
    assert row.value.startswith("memory on GPU 1"), "what fails comes first"


def test_software_tests_of_version_3_have_one_result_with_the_gpu_of_its_last_error() -> None:
    errors = [{"warnings": PERSISTENCE, "error_id": 29, "error_category": 8, "error_severity": CONFIG}]
    document = version_3({"gpu_id": 0, "status": "Fail", "warnings": errors}, name="Persistence Mode")
    row = only(diagnosed(answer(document, 226)))
    assert (row.status, row.value) == (Status.WARN, f"Persistence Mode on GPU 0: {PERSISTENCE}")


def test_version_3_prints_fail_for_a_warning_and_ends_with_0() -> None:
    rows = [{"gpu_id": "0", "status": "Pass"}, {"gpu_id": "1", "status": "Fail", "warnings": [error("slow")]}]
    row = only(diagnosed(answer(version_3(*rows), 0)))
    assert (row.status, row.value) == (Status.WARN, "PCIe on GPU 1: slow")


def test_a_failure_without_a_message_fails() -> None:
    row = only(diagnosed(answer(version_4(one_test("pcie", result(0), result(1, "Fail"), summary="Fail")))))
    assert (row.status, row.value) == (Status.FAIL, "pcie on GPU 1: fail")


def test_a_warning_of_dcgm_is_one() -> None:
    odd = one_test("pcie", result(0, "Warn", error("replays")), result(1), summary="Warn")
    row = only(diagnosed(answer(version_4(odd))))
    assert (row.status, row.value) == (Status.WARN, "pcie on GPU 0: replays")


def test_skipped_tests_are_named_and_alone_are_no_pass() -> None:
    skipped = one_test("memory", result(0, "Skip"), result(1, "Skip"), summary="Skip")
    row = only(diagnosed(answer(version_4(WELL[0], skipped))))
    assert (row.status, row.value) == (Status.OK, "level 1: passed software; skipped memory")
    assert not_run(diagnosed(answer(version_4(skipped)))) == ("DCGM has run no test: memory", False)
    assert not_run(diagnosed(answer(version_4()))) == ("DCGM has run no test: none is in its output", True)


@pytest.mark.parametrize("tests", [(one_test("memory", result(0), result(1, "Not Run")),), ({"name": "memory"},)])
def test_a_result_that_is_missing_or_unknown_is_no_pass(tests: tuple[dict[str, Any], ...]) -> None:
    assert not_run(diagnosed(answer(version_4(WELL[0], *tests)))) == ("DCGM has no result of memory", True)


def test_gpus_that_dcgm_leaves_out_are_no_pass() -> None:
    found = not_run(diagnosed(answer(version_4(one_test("software", result(0))))))
    assert found == ("DCGM has tested 1 of the host's 2 GPUs", True)


def test_an_exit_code_that_no_test_explains_is_no_pass() -> None:
    value, broken = not_run(diagnosed(answer(version_4(*WELL), 1)))
    assert (value, broken) == ("dcgmi ended with exit code 1, and names no failed test", True)


def test_a_host_without_nv_hostengine_is_not_run_and_nothing_is_broken() -> None:
    said = ("Error: unable to establish a connection to the specified host: localhost\n"
            "Error: Unable to connect to host engine. Host engine connection invalid/disconnected.\n")  # fmt: skip
    value, broken = not_run(diagnosed(answer(said, 231)))
    assert value.startswith("dcgmi printed no JSON (exit code 231): Error: unable to establish a connection")
    assert not broken


@pytest.mark.parametrize("root", ["DCGM Diagnostic", "DCGM GPU Diagnostic"])
def test_a_diagnostic_that_could_not_be_made_is_not_run(root: str) -> None:
    paused, mixed = "Error: Diagnostic could not be run while DCGM is paused.", "only on a homogeneous group of GPUs."
    for said, broken in ((paused, True), (mixed, False)):
        assert not_run(diagnosed(answer({root: {"runtime_error": said}}, 200))) == (said, broken)


@pytest.mark.parametrize("output", ["", "Segmentation fault", '{"DCGM Diagnostic": {', "[1, 2]", "}{"])
def test_an_output_without_json_is_not_run(output: str) -> None:
    value, broken = not_run(diagnosed(answer(output, 139)))
    assert value.startswith("dcgmi printed no JSON (exit code 139): ")
    assert broken


@pytest.mark.parametrize(
    "document",
    [
        {"version": "5.0.0", "tests": [{"name": "memory", "status": "pass"}]},
        {"DCGM Diagnostic": {}},
        {"DCGM Diagnostic": {"test_categories": {"tests": "all"}}},
        {"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "memory", "results": [{"gpu_id": 0}]}]}]}},
        {"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "memory", "results": [{"status": 0}]}]}]}},
    ],
)
def test_json_of_another_form_is_not_run(document: dict[str, Any]) -> None:
    value, broken = not_run(diagnosed(answer(document)))
    assert value.startswith("its JSON has an unknown form")
    assert broken


def test_one_that_was_stopped_or_not_begun_is_not_run_with_the_reason() -> None:
    assert not_run(diagnosed(answer("", problem="no end within 90 s"))) == ("no end within 90 s", True)
    hung = {"diagnostic": {"problem": "no answer within 113 s"}, "level": 1}
    assert not_run(diagnosed(hung)) == ("no answer within 113 s", True)
    assert not_run(diagnosed({}, living_runs=["run night of kim"])) == (
        "no load where somebody is: run night of kim", True
    )  # fmt: skip
    late = diagnosed({})
    late = replace(late, hosts=tuple(replace(host, late="no time left of --within 30s") for host in late.hosts))
    assert not_run(late) == ("no time left of --within 30s", True)
