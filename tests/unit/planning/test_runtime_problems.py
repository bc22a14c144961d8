"""Hosts that cannot start ranks: with Docker, as processes, in an image with Apptainer."""

from __future__ import annotations

from typing import Any

import pytest

from ddp_play.errors import HostNotReady, UsageError
from ddp_play.planning.host_facts import ImageFile
from ddp_play.planning.runtime_problems import image_differences, runtime_problem, unused_limits
from tests.unit.build import apptainer, engine, host, job, plan

SIF = "/shared/train.sif"
MISSING = ImageFile("", problem="does not exist")


@pytest.mark.parametrize(
    ("fields", "values", "words"),
    [
        ({}, {}, ""),
        ({"rank_python_problem": "cannot be run"}, {}, "cannot be run"),
        ({"engine": engine()}, {"image": "i"}, ""),
        ({}, {"image": "i"}, "the container engine was not queried"),
        ({"engine": engine(problem="the engine did not answer in 5 s")}, {"image": "i"}, "did not answer"),
        ({"engine": engine(image=None)}, {"image": "i", "image_pull": "never"}, "ddp_job_image_pull is never"),
        ({"apptainer": apptainer(), "rank_python_problem": "cannot be run"}, {"image": SIF}, ""),
        ({}, {"image": SIF}, "was not looked for"),
        (
            {"apptainer": apptainer(program="", problem="neither is in the PATH")},
            {"image": SIF},
            "neither is in the PATH",
        ),
        ({"apptainer": apptainer(image=None)}, {"image": SIF}, "was not looked at"),
        ({"apptainer": apptainer(image=None)}, {"image": "docker://i"}, ""),
        ({"apptainer": apptainer(image=MISSING)}, {"image": SIF}, f"image {SIF} does not exist"),
        ({"rank_python_problem": "cannot be run"}, {"image": "i", "runtime": "pyxis"}, ""),
    ],
)
def test_what_a_host_lacks(fields: dict[str, Any], values: dict[str, Any], words: str) -> None:
    found = runtime_problem(job(**values), host(**fields))
    assert words in found.why if found and words else found is None


@pytest.mark.parametrize(
    ("name", "version", "words"),
    [
        ("apptainer", "1.1.0", ""),
        ("apptainer", "1.4.5-2", ""),
        ("singularity-ce", "4.1.2", ""),
        ("apptainer", "devel", ""),
        ("apptainer", "1.0.3", "1.1 or newer is needed"),
        ("singularity-ce", "3.9.9", "3.10 or newer is needed"),
        ("singularity", "3.8.7", "does not know"),
    ],
)
def test_versions_that_keep_the_values_of_variables(name: str, version: str, words: str) -> None:
    found = runtime_problem(job(image=SIF), host(apptainer=apptainer(name=name, version=version)))
    assert words in found.why if found and words else found is None


def test_all_hosts_without_the_image_are_named_with_what_to_do() -> None:
    missing = apptainer(image=MISSING)
    with pytest.raises(HostNotReady) as caught:
        plan(host("h1", apptainer=missing), host("h2", "10.0.0.2/24", apptainer=missing), image=SIF)
    assert "h1" in caught.value.message
    assert "h2" in caught.value.message
    assert "directory that all hosts share" in caught.value.hint


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"image": SIF, "groups": ["video"]}, "is for Docker"),
        ({"groups": ["video"]}, "is for containers"),
        ({"image": SIF, "backend": "mpi"}, "backend mpi is not supported with Apptainer"),
        ({"image": "i", "runtime": "pyxis", "backend": "mpi"}, "backend mpi is not supported with pyxis"),
        ({"image": "i", "runtime": "pyxis", "user": "1000:1000"}, "for the user of the Slurm job alone"),
        ({"image": "i", "runtime": "pyxis", "groups": ["video"]}, "is for Docker"),
    ],
)
def test_settings_without_a_place(values: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        plan(host(apptainer=apptainer()), **values)


def test_limits_of_docker_alone_are_warned_of() -> None:
    assert unused_limits(job(image=SIF)) == []
    assert unused_limits(job(mounts=["/data:/data"])) == []
    (warning,) = unused_limits(job(memory="8g", mounts=["/data:/mnt"]))
    assert warning.startswith("ddp_job_memory and ddp_job_mounts without effect: without ddp_job_image ranks are proc")
    assert unused_limits(job(image="i", memory="8g")) == []
    assert "ddp_job_memory and ddp_job_shm_size" in unused_limits(job(image=SIF, memory="8g", shm_size="1g"))[0]
    (warning,) = unused_limits(job(image="i", runtime="pyxis", memory="8g"))
    assert "ddp_job_memory without effect: ranks in a container of pyxis have" in warning


def test_files_that_are_not_one_image_are_warned_of() -> None:
    other = apptainer(image=ImageFile("sif", "cd" * 16))
    same = (host("h1", apptainer=apptainer()), host("h2", apptainer=apptainer()))
    differing = (host("h1", apptainer=apptainer()), host("h2", apptainer=other))
    assert image_differences(job(image=SIF), same) == []
    assert image_differences(job(image="i"), differing) == []
    assert "abababababab on h1; cdcdcdcdcdcd on h2" in image_differences(job(image=SIF), differing)[0]
