"""Words that start a rank in an image, and the environment of Apptainer for them."""

from __future__ import annotations

import pytest

from ddp_play.planning.apptainer_exec import PULLED_FILE, env_prefix, launch_env, mount_word
from ddp_play.planning.plan_document import Plan, command_line, plan_from_json
from tests.unit.build import apptainer, env, gpus, host, numa_host, plan, shared

SIF = "/shared/train.sif"


def words(made: Plan) -> list[str]:
    return list(made.host_of(0).rank(0).image_words)


def test_the_whole_command_of_a_rank() -> None:
    made = plan(host(apptainer=apptainer()), image=SIF, source="/code", mounts=["/data:/data:ro"])
    assert command_line(made.host_of(0).rank(0)) == (
        "/usr/bin/apptainer --quiet --nocolor exec --no-eval --home '<host_dir>/rank-0' "
        "--mount 'type=bind,source=<host_dir>,destination=<host_dir>' "
        "--mount type=bind,source=/data,destination=/data,ro --pwd '<host_dir>/src' /shared/train.sif python train.py"
    )
    assert (made.runtime, made.image, made.image_id) == ("apptainer", SIF, "ab" * 16)
    assert plan_from_json(made.to_json()).hosts == made.hosts


def test_a_rank_has_the_paths_of_the_host_and_the_programs_of_the_image() -> None:
    made = plan(host(apptainer=apptainer()), image=SIF, command=["{python}", "x"])
    assert made.host_of(0).rank(0).argv == ("python", "x")
    assert (env(made)["HOME"], "PATH" in env(made)) == ("<host_dir>/rank-0", False)
    assert env(made)["DDP_PLAY_RESULT"].startswith("<host_dir>/rank-0/")
    assert made.hosts[0].workdir == "/"


@pytest.mark.parametrize(
    ("fields", "values", "expected"),
    [
        ({"gpus": gpus(2)}, {}, ["--nv"]),
        ({"shared": shared("/nfs")}, {}, ["type=bind,source=/nfs,destination=/nfs"]),
        ({"nccl_conf": True}, {}, ["type=bind,source=/etc/nccl.conf,destination=/etc/nccl.conf,ro"]),
        ({}, {"secret_names": ("TOKEN",)}, ["type=bind,source=<secrets_dir>,destination=<secrets_dir>,ro"]),
        ({}, {"env": {"HOME": "/home/ops"}}, ["--home", "/home/ops"]),
        ({}, {"env": {"HOME": ""}}, ["--no-home"]),
        ({}, {"launcher": "torchrun", "workdir": "/app"}, ["--pwd", "/app"]),
    ],
)
def test_words_that_depend_on_host_and_job(
    fields: dict[str, object], values: dict[str, object], expected: list[str]
) -> None:
    made = plan(host(apptainer=apptainer(), **fields), image=SIF, **values)  # type: ignore[arg-type]
    unit = made.hosts[0].agent or made.host_of(0).rank(0)
    assert [word for word in unit.image_words if word in expected] == expected


def test_gpus_that_the_job_does_not_want_are_not_there() -> None:
    assert "--nv" not in words(plan(host(apptainer=apptainer(), gpus=gpus(2)), image=SIF, gpus="none"))


def test_torchrun_itself_is_in_the_image() -> None:
    made = plan(numa_host(apptainer=apptainer()), image=SIF, launcher="torchrun")
    agent = made.hosts[0].agent
    assert agent is not None
    assert agent.image_words[-1] == SIF
    assert "--no-home" in agent.image_words
    assert agent.argv[:3] == ("python", "-m", "torch.distributed.run")
    assert "--numa-binding" not in agent.argv, "whether the image has numactl is not known"
    assert made.host_of(0).rank(0).image_words == ()


def test_a_reference_is_a_file_of_the_run() -> None:
    made = plan(host(apptainer=apptainer(image=None)), image="docker://team/train:2")
    assert words(made)[-1] == PULLED_FILE
    assert (made.image, made.image_id) == ("docker://team/train:2", "")


def test_values_reach_the_command_and_settings_the_program() -> None:
    given = {"RANK": "0", "HOME": "/x", "PATH": "/opt/bin", "LD_LIBRARY_PATH": "/l", "APPTAINER_BIND": "/d"}
    assert launch_env("/opt/a/bin/apptainer", given, "/run/own") == {
        "PATH": "/opt/a/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "APPTAINER_CONFIGDIR": "/run/own",
        "APPTAINER_TMPDIR": "/run/own",
        "APPTAINERENV_RANK": "0",
        "APPTAINERENV_PATH": "/opt/bin",
        "APPTAINERENV_LD_LIBRARY_PATH": "/l",
        "APPTAINER_BIND": "/d",
    }
    assert launch_env("/usr/bin/singularity", {"APPTAINER_TMPDIR": "/big"}, "/o")["SINGULARITY_TMPDIR"] == "/o"
    assert launch_env("/usr/bin/apptainer", {"APPTAINER_TMPDIR": "/big"}, "/o")["APPTAINER_TMPDIR"] == "/big"
    assert env_prefix("/usr/bin/singularity") == "SINGULARITYENV_"


@pytest.mark.parametrize(
    ("source", "read_only", "word"),
    [
        ("/data", False, "type=bind,source=/data,destination=/d"),
        ("/a:b", True, "type=bind,source=/a:b,destination=/d,ro"),
        ('/a"b', False, 'type=bind,"source=/a""b",destination=/d'),
    ],
)
def test_a_mount_is_a_row_of_csv(source: str, read_only: bool, word: str) -> None:
    assert mount_word(source, "/d", read_only=read_only) == word
