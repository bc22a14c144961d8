"""Variants of measurements, and the requests that run them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.runner import PlaybookRequest
from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.errors import UsageError
from ddp_play.measuring.measurement_runs import (
    FinishedRun,
    Variant,
    as_one,
    failure_lines,
    measurement_variants,
    request_for,
    run_after_crash,
)
from tests.unit.build import gpus, host, hosts, plan
from tests.unit.cli.run_directories import make_run, write_result

from .test_crashed_cases import CASES, document, row, running

GPUS: dict[str, Any] = {"gpus": gpus(2)}


@pytest.mark.parametrize(
    ("facts", "job", "requested", "expected"),
    [
        (hosts(2), {}, (), ["gloo cpu"]),
        (hosts(2, **GPUS), {}, (), ["gloo cpu", "gloo cuda", "nccl cuda"]),
        ((host("h1", "10.0.0.1/24", **GPUS), host("h2", "10.0.0.2/24")), {}, (), ["gloo cpu"]),
        (hosts(2, **GPUS), {"backend": "nccl"}, (), ["nccl cuda"]),  # the job's own choice
        (hosts(2, **GPUS), {"backend": "nccl"}, ("gloo",), ["gloo cpu", "gloo cuda"]),  # --backend is nearer
        (hosts(2), {}, ("gloo", "mpi"), ["gloo cpu", "mpi cpu"]),
    ],
)
def test_ways(facts: Any, job: dict[str, Any], requested: tuple[str, ...], expected: list[str]) -> None:
    assert [str(variant) for variant in measurement_variants(plan(*facts, **job), requested)] == expected


def test_optional_backends_are_tried_without_a_request() -> None:
    made = plan(*hosts(2))
    assert [(str(variant), variant.optional) for variant in measurement_variants(made, optional_backends=("mpi",))] == [
        ("gloo cpu", False),
        ("mpi cpu", True),
    ]
    assert [variant.optional for variant in measurement_variants(made, ("mpi",), optional_backends=("mpi",))] == [False]
    assert [
        str(variant) for variant in measurement_variants(plan(*hosts(2), backend="gloo"), optional_backends=("mpi",))
    ] == ["gloo cpu"]


@pytest.mark.parametrize(
    ("optional", "kind", "absent"),
    [
        (True, "host_not_ready", True),
        (True, "usage", True),
        (True, "rank_failed", False),  # it was there, and failed
        (False, "host_not_ready", False),  # somebody wanted it
    ],
)
def test_an_absent_backend(tmp_path: Path, optional: bool, kind: str, absent: bool) -> None:
    paths = RunPaths(tmp_path)
    write_json(paths.run, {"exit_class": kind, "verdict": {"message": "h1: no mpi4py\nmore"}})
    one = FinishedRun(Variant("mpi", "cpu", optional=optional), paths, 69)
    assert (one.absent, one.message, one.result) == (absent, "h1: no mpi4py", {})


def test_an_unknown_backend() -> None:
    with pytest.raises(UsageError, match="no backend 'ucc'"):
        measurement_variants(plan(*hosts(2)), ("ucc",))


def test_nccl_without_gpus_is_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="--backend nccl needs a GPU on every host; none usable on h1, h2"):
        measurement_variants(plan(*hosts(2)), ("gloo", "nccl"))


def test_the_request_keeps_what_the_caller_gave() -> None:
    given = PlaybookRequest("/p.yml", ("/inv",), "/", options=("--limit", "gpu01", "--extra-vars", "a=1"))
    made = request_for(given, Variant("gloo", "cuda"), ("python", "-m", "trainer", "collectives"))
    assert made.options[:5] == (*given.options, "--extra-vars")
    ours = json.loads(made.options[5])
    words = "python -m trainer collectives --backend {backend} --device cuda --init-method {init_method}"
    assert ours == {"ddp_job_backend": "gloo", "ddp_job_command": words.split()}


CUDA = Variant("gloo", "cuda")


def ended(name: str, code: int, result: dict[str, Any], **run: Any) -> FinishedRun:
    paths = make_run(name, exit_code=code, **run)
    write_result(paths, result)
    return FinishedRun(CUDA, paths, code)


def crashed(name: str, case: str, *rows: dict[str, Any], after: str = "") -> FinishedRun:
    """A run that began after a case and crashed in another one."""
    names = list(CASES)
    begin = names.index(after) + 1 if after else 0
    cases = [{"name": one, "documented": CASES[one]} for one in names[begin:]]
    return ended(name, 139, running(case, *rows, cases=cases), **document())


def done(name: str, *rows: dict[str, Any]) -> FinishedRun:
    return ended(name, 0, {"status": "finished", "collectives": list(rows)}, verdict={"kind": "done"}, ranks=[])


def test_a_run_goes_on_after_a_crash() -> None:
    more = run_after_crash([crashed("m", "all_reduce")])
    assert more is not None
    assert more.arguments == ("--after", "all_reduce")
    reason = "rank 0 on h1 ended by signal 11 (SIGSEGV) in all_reduce; another run tries the collectives after it"
    assert more.reason == reason
    again = run_after_crash([crashed("m", "all_reduce"), crashed("m-2", "barrier", after="all_reduce")])
    assert again is not None
    assert again.arguments == ("--after", "barrier")


@pytest.mark.parametrize(
    "runs",
    [
        lambda: [done("m")],
        lambda: [ended("m", 3, running("all_reduce"), verdict={"kind": "host_lost", "rank": 0})],
        lambda: [crashed("m", "objects")],  # the last one
        lambda: [crashed("m", "all_reduce"), done("m-2")],
        lambda: [crashed("m", "all_reduce"), crashed("m-2", "all_reduce")],  # no progress
        lambda: [crashed("m", "barrier"), crashed("m-2", "all_reduce")],
    ],
)
def test_no_run_goes_on(runs: Any) -> None:
    assert run_after_crash(runs()) is None


def statuses(run: FinishedRun) -> list[tuple[str, str]]:
    return [(one["name"], one["status"]) for one in run.result["collectives"]]


def test_runs_after_crashes_are_one_result() -> None:
    runs = [
        crashed("m", "all_reduce", row("broadcast", "refused")),
        crashed("m-2", "barrier", after="all_reduce"),
        done("m-3", row("objects")),
    ]
    one = as_one(runs)
    assert statuses(one) == [
        ("broadcast", "refused"),
        ("all_reduce", "crashed"),
        ("barrier", "crashed"),
        ("objects", "works"),
    ]
    assert (one.exit_code, one.failure, one.paths) == (1, "", runs[0].paths)
    assert list(one.bundles) == [run.paths for run in runs]


@pytest.mark.parametrize(
    ("last", "code", "failure"),
    [
        (lambda: ended("m-2", 130, running("barrier"), verdict={"message": "interrupted"}), 130, "interrupted"),
        (lambda: ended("m-2", 69, {}, verdict={"message": "host h1 was lost"}), 69, "host h1 was lost"),
        (lambda: crashed("m-2", "all_reduce", row("broadcast")), 1, "exit code 139"),
    ],
)
def test_a_further_run_that_ends_in_another_way_leaves_the_rest_untried(last: Any, code: int, failure: str) -> None:
    one = as_one([crashed("m", "all_reduce", row("broadcast")), last()])
    untried = [("barrier", "not run"), ("objects", "not run")]
    assert statuses(one) == [("broadcast", "works"), ("all_reduce", "crashed"), *untried]
    assert (one.exit_code, failure_lines([one])) == (code, [f"gloo cuda: incomplete: {failure}"])


def test_a_crash_in_the_last_case_loses_nothing() -> None:
    one = as_one([crashed("m", "objects", *(row(name) for name in list(CASES)[:-1]))])
    assert [status for _, status in statuses(one)] == ["works", "works", "works", "crashed"]
    assert (one.exit_code, one.further, one.failure) == (1, (), "")


def test_one_run_stays_as_it_is() -> None:
    only = done("m", row("broadcast"))
    assert as_one([only]) is only
    assert failure_lines([only]) == []


def test_a_run_that_ends_without_a_crash_has_no_result_before_its_end() -> None:
    run = ended("m", 69, running("barrier", row("broadcast")), verdict={"kind": "host_lost", "message": "h1 was lost"})
    assert (as_one([run]).result, run.failure) == ({}, "gloo cuda: no result: h1 was lost")
