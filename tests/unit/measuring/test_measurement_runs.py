"""Variants of measurements, and the requests that run them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.runner import PlaybookRequest
from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.errors import UsageError
from ddp_play.measuring.measurement_runs import FinishedRun, Variant, measurement_variants, request_for
from tests.unit.build import gpus, host, hosts, plan

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
