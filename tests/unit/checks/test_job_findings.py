"""Findings about one job from the facts of its hosts: each names the hosts, and none claims what was not looked at."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ddp_play.checks.finding import Finding, Status
from ddp_play.checks.job_findings import judge_job
from ddp_play.errors import HostNotReady
from ddp_play.planning.host_facts import Engine, Gpu, HostFacts, Image, SharedDir
from ddp_play.planning.remedy_text import Asked
from ddp_play.run.job_survey import JobSurvey
from tests.unit.build import apptainer, hosts, job, plan

OK, WARN, FAIL, UNCHECKED = Status.OK, Status.WARN, Status.FAIL, Status.UNCHECKED
HERE = Image("sha256:0123456789abcdef", torch="2.13.0")
GPU = Gpu(0, "GPU-1", "H100", 80000)
BUSY = dataclasses.replace(GPU, users=("4711",))
MOUNT = SharedDir("/shared", exists=True, writable=True, fstype="nfs4")
BAD_MOUNT = SharedDir("/shared", exists=False, writable=False, problem="no such directory")


def judge(*facts: HostFacts, **values: Any) -> dict[str, list[Finding]]:
    """The findings of a survey without a plan, by check."""
    survey = JobSurvey(job(**values), facts, error=HostNotReady("no plan", hint="as it says"))
    found: dict[str, list[Finding]] = {}
    for row in judge_job(survey, Asked(("inv",))):
        found.setdefault(row.check, []).append(row)
    return found


@pytest.mark.parametrize(
    ("facts", "values", "check", "status", "value"),
    [
        ({}, {"image": "train:1"}, "job runtime", FAIL, "the container engine was not queried"),
        ({"engine": Engine("28")}, {"image": "t:1"}, "job image", WARN, "t:1 is not there"),
        ({"engine": Engine("28")}, {"image": "t:1", "image_pull": "always"}, "job image", UNCHECKED, "t:1: each run"),
        (
            {"engine": Engine("28")},
            {"image": "t:1", "image_pull": "never"},
            "job runtime",
            FAIL,
            "image t:1 is missing",
        ),
        ({"engine": Engine("28", image=HERE)}, {"image": "t:1"}, "job image", OK, "t:1 (sha256:0123456789ab, torch 2"),
        ({}, {"image": "/x.sif"}, "job runtime", FAIL, "Apptainer was not looked for"),
        ({"apptainer": apptainer()}, {"image": "/x.sif"}, "job image", OK, "/x.sif (sif, id abababababab)"),
        (
            {"apptainer": apptainer(image=None)},
            {"image": "docker://a"},
            "job image",
            UNCHECKED,
            "docker://a: each run pulls it",
        ),
        ({}, {"image": "a", "runtime": "pyxis"}, "job image", UNCHECKED, "a: nodes were not asked for it"),
        ({"rank_torch": "2.13.0"}, {}, "job python", OK, ""),
        ({"rank_torch": ""}, {}, "job python", WARN, "no torch in "),
        ({"rank_python_problem": "no python"}, {}, "job runtime", FAIL, "no python"),
        ({}, {"gpus": "none"}, "job gpus", OK, "none asked for"),
        ({"gpus": ()}, {}, "job gpus", OK, "none: ranks use CPUs"),
        ({"gpus": (GPU,)}, {}, "job gpus", OK, "1 for 1 ranks"),
        ({"gpus": (BUSY,)}, {}, "job gpus", WARN, "in use: GPU 0 (4711)"),
        ({"gpus": (GPU,)}, {"ranks_per_host": 2, "backend": "nccl"}, "job gpus", FAIL, "2 ranks on 1 GPU(s)"),
        ({"gpu_problem": "nvidia-smi fails"}, {}, "job gpus", FAIL, "nvidia-smi fails"),
        ({"shared": MOUNT}, {}, "job shared dir", OK, "/shared"),
        ({"shared": BAD_MOUNT}, {}, "job shared dir", FAIL, "/shared: no such directory"),
    ],
)
def test_hosts_of_which_the_same_is_found_share_a_line(
    facts: dict[str, Any], values: dict[str, Any], check: str, status: Status, value: str
) -> None:
    (row,) = judge(*hosts(3, **facts), **values)[check]
    assert (row.status, row.value[: len(value)], row.where) == (status, value, ("h1", "h2", "h3"))
    assert bool(row.command) == (status in (WARN, FAIL)), "each failure has its remedy"


def test_only_the_hosts_without_the_image_are_named_in_its_command() -> None:
    with_image, without = hosts(2, engine=Engine("28", image=HERE)), hosts(3, engine=Engine("28"))[2:]
    rows = judge(*with_image, *without, image="t:1")["job image"]
    assert [(row.status, row.where) for row in rows] == [(OK, ("h1", "h2")), (WARN, ("h3",))]
    assert rows[1].command == "ddp-play image load -i inv --limit h3 --image t:1"


@pytest.mark.parametrize(
    ("values", "check", "status", "value"),
    [
        ({}, "job source", OK, "{source}: 2 files, 1 MiB"),
        ({}, "job script", OK, "train.py"),
        ({"command": ["python", "sub/other.py"]}, "job script", FAIL, "sub/other.py is not in what is copied"),
        ({"source_exclude": ["*.py"]}, "job script", FAIL, "train.py is not in what is copied"),
        ({"command": ["python", "-m", "train"]}, "job script", UNCHECKED, "the command names no Python file"),
        ({"workdir": "/data"}, "job script", UNCHECKED, "ddp_job_workdir is a directory"),
        ({"source": "/no/such/tree"}, "job source", FAIL, "ddp_job_source: /no/such/tree is not a directory"),
        ({"source": ""}, "job source", OK, "none (ddp_job_source)"),
    ],
)
def test_the_source_is_looked_at_as_a_run_copies_it(
    tmp_path: Path, values: dict[str, Any], check: str, status: Status, value: str
) -> None:
    (tmp_path / "train.py").write_text("pass")
    (tmp_path / "data.txt").write_text("1")
    (row,) = judge(*hosts(1), **{"source": str(tmp_path), **values})[check]
    expected = value.format(source=tmp_path)
    assert (row.status, row.value[: len(expected)]) == (status, expected)


@pytest.mark.parametrize(("free", "status"), [(100_000, OK), (500, WARN), (50, FAIL)])
def test_room_for_the_source_where_no_directory_is_shared(tmp_path: Path, free: int, status: Status) -> None:
    (tmp_path / "train.py").write_text("pass")
    assert judge(*hosts(2, disk_free_mib=free), source=str(tmp_path))["job disk"][0].status is status
    assert "job disk" not in judge(*hosts(2, disk_free_mib=free, shared=MOUNT), source=str(tmp_path))


def test_what_only_a_run_finds_out_is_said() -> None:
    found = judge(*hosts(2), mounts=["/data:/data"])
    assert [found[check][0].status for check in ("job port", "job mounts")] == [UNCHECKED, UNCHECKED]
    assert "29500-29999" in found["job port"][0].value
    assert "/data" in found["job mounts"][0].value
    assert (found["job plan"][0].status, found["job plan"][0].value) == (FAIL, "no plan")


def test_the_plan_with_its_warnings_and_the_hosts_that_it_leaves_out() -> None:
    facts = hosts(2, clock_offset_s=9.0)
    made = dataclasses.replace(plan(*facts), left_out=(("h3", "drained"), ("h4", "drained")))
    rows = judge_job(JobSurvey(job(), facts, made), Asked(("inv",)))
    assert rows[0].status is OK
    assert [row.value for row in rows if row.check == "job warning"] == list(made.warnings)
    assert [row.where for row in rows if row.check == "job hosts"] == [("h3", "h4")]


def test_a_playbook_that_gets_nowhere_has_one_finding() -> None:
    (row,) = judge_job(JobSurvey(None, error=HostNotReady("h1: no route", hint="ssh h1")), Asked(("inv",)))
    assert (row.status, row.value, row.command) == (FAIL, "h1: no route", "ssh h1")
