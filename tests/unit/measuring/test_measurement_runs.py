"""Which backends and devices are tried, and with which request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ddp_play.ansible.runner import PlaybookRequest
from ddp_play.bundle.paths import RunPaths, write_json
from ddp_play.errors import UsageError
from ddp_play.measuring.measurement_runs import Finished, Way, request_for, ways_to_try
from tests.unit.build import gpus, host, hosts, plan

GPUS: dict[str, Any] = {"gpus": gpus(2)}


@pytest.mark.parametrize(
    ("facts", "job", "asked", "expected"),
    [
        (hosts(2), {}, (), ["gloo cpu"]),
        (hosts(2, **GPUS), {}, (), ["gloo cpu", "gloo cuda", "nccl cuda"]),
        ((host("h1", "10.0.0.1/24", **GPUS), host("h2", "10.0.0.2/24")), {}, (), ["gloo cpu"]),
        (hosts(2, **GPUS), {"backend": "nccl"}, (), ["nccl cuda"]),  # the job's own choice
        (hosts(2, **GPUS), {"backend": "nccl"}, ("gloo",), ["gloo cpu", "gloo cuda"]),  # --backend is nearer
        (hosts(2), {}, ("gloo", "mpi"), ["gloo cpu", "mpi cpu"]),
    ],
)
def test_ways(facts: Any, job: dict[str, Any], asked: tuple[str, ...], expected: list[str]) -> None:
    assert [str(way) for way in ways_to_try(plan(*facts, **job), asked)] == expected


def test_what_only_the_ranks_know_is_tried_when_nobody_chose() -> None:
    made = plan(*hosts(2))
    assert [(str(way), way.optional) for way in ways_to_try(made, also=("mpi",))] == [
        ("gloo cpu", False),
        ("mpi cpu", True),
    ]
    assert [way.optional for way in ways_to_try(made, ("mpi",), also=("mpi",))] == [False]
    assert [str(way) for way in ways_to_try(plan(*hosts(2), backend="gloo"), also=("mpi",))] == ["gloo cpu"]


@pytest.mark.parametrize(
    ("optional", "kind", "absent"),
    [
        (True, "host_not_ready", True),
        (True, "usage", True),
        (True, "rank_failed", False),  # it was there, and failed
        (False, "host_not_ready", False),  # somebody wanted it
    ],
)
def test_a_backend_that_is_not_there(tmp_path: Path, optional: bool, kind: str, absent: bool) -> None:
    paths = RunPaths(tmp_path)
    write_json(paths.run, {"exit_class": kind, "verdict": {"message": "h1: no mpi4py\nmore"}})
    one = Finished(Way("mpi", "cpu", optional=optional), paths, 69)
    assert (one.absent, one.message, one.result) == (absent, "h1: no mpi4py", {})


def test_an_unknown_backend() -> None:
    with pytest.raises(UsageError, match="no backend 'ucc'"):
        ways_to_try(plan(*hosts(2)), ("ucc",))


def test_nccl_without_gpus_is_refused_before_anything_starts() -> None:
    with pytest.raises(UsageError, match="--backend nccl needs a GPU on every host; none usable on h1, h2"):
        ways_to_try(plan(*hosts(2)), ("gloo", "nccl"))


def test_the_request_keeps_what_the_caller_gave() -> None:
    given = PlaybookRequest("/p.yml", ("/inv",), "/", options=("--limit", "gpu01", "--extra-vars", "a=1"))
    made = request_for(given, Way("gloo", "cuda"), ("python", "-m", "trainer", "collectives"))
    assert made.options[:5] == (*given.options, "--extra-vars")
    ours = json.loads(made.options[5])
    words = "python -m trainer collectives --backend {backend} --device cuda --init-method {init_method}"
    assert ours == {"ddp_job_backend": "gloo", "ddp_job_command": words.split()}
