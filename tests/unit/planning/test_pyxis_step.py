"""Options of srun that make the container of a node, and the command that enters it."""

from __future__ import annotations

import pytest

from ddp_play.errors import UsageError
from ddp_play.planning.plan_document import Plan, command_line, plan_from_json
from ddp_play.planning.pyxis_step import entered, entering_env, pyxis_spec
from tests.unit.build import env, gpus, host, numa_host, plan, shared

IMAGE = "/shared/train.sqsh"
LOGIN = "HOME,LOGNAME,USER,ENROOT_CONFIG_PATH"
PROXIES = "http_proxy,HTTP_PROXY,https_proxy,HTTPS_PROXY,all_proxy,ALL_PROXY,no_proxy,NO_PROXY"


def made(*facts: object, **values: object) -> Plan:
    return plan(*(facts or (host(),)), runtime="pyxis", image=values.pop("image", IMAGE), **values)  # type: ignore[arg-type]


def words(plan: Plan) -> tuple[str, ...]:
    unit = plan.hosts[0].agent or plan.host_of(0).rank(0)
    return unit.image_words


def test_the_whole_command_of_a_rank() -> None:
    found = made(source="/code", mounts=["/data:/d:ro"], image="site:5000/train:2")
    assert command_line(found.host_of(0).rank(0)) == (
        f"srun --export={LOGIN},{PROXIES} '--container-image=site:5000#train:2' --no-container-mount-home "
        "'--container-mounts=<host_dir>:<host_dir>,/data:/d:ro' '--container-workdir=<host_dir>/src' python train.py"
    )
    assert (found.runtime, found.image, found.image_id) == ("pyxis", "site:5000/train:2", "")
    assert plan_from_json(found.to_json()).hosts == found.hosts


def test_a_rank_has_the_paths_of_the_host_and_the_programs_of_the_image() -> None:
    found = made(command=["{python}", "x"])
    assert found.host_of(0).rank(0).argv == ("python", "x")
    assert (env(found)["HOME"], "PATH" in env(found)) == ("<host_dir>/rank-0", False)
    assert found.hosts[0].workdir == "/"


@pytest.mark.parametrize(
    ("fields", "values", "expected"),
    [
        ({"gpus": gpus(2)}, {}, f"--export={LOGIN},NVIDIA_VISIBLE_DEVICES,NVIDIA_DRIVER_CAPABILITIES"),
        ({"gpus": gpus(2)}, {"gpus": "none"}, f"--export={LOGIN}"),
        ({"shared": shared("/nfs")}, {}, "--container-mounts=<host_dir>:<host_dir>,/nfs:/nfs"),
        ({"nccl_conf": True}, {}, "--container-mounts=<host_dir>:<host_dir>,/etc/nccl.conf:/etc/nccl.conf:ro"),
        (
            {},
            {"secret_names": ("TOKEN",)},
            "--container-mounts=<host_dir>:<host_dir>,<secrets_dir>:<secrets_dir>:ro",
        ),
        ({}, {"launcher": "torchrun", "workdir": "/app"}, "--container-workdir=/app"),
    ],
)
def test_words_that_depend_on_host_and_job(fields: dict[str, object], values: dict[str, object], expected: str) -> None:
    assert expected in words(made(host(**fields), **values))  # type: ignore[arg-type]


def test_torchrun_itself_is_in_the_container() -> None:
    found = made(numa_host(), launcher="torchrun")
    assert found.hosts[0].agent is not None
    assert found.hosts[0].agent.argv[:3] == ("python", "-m", "torch.distributed.run")
    assert found.host_of(0).rank(0).image_words == ()


@pytest.mark.parametrize("mount", [{"source": "/a:b", "target": "/c"}, {"source": "/a", "target": "/b:c"}])
def test_a_mount_that_the_option_cannot_hold_is_refused(mount: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="has a colon or a comma"):
        made(mounts=[mount])


def test_the_spec_of_a_host_has_the_entry_and_the_options_of_the_step() -> None:
    step = ("srun", "--container-image=/x.sqsh", "--container-workdir=/app")
    assert pyxis_spec(step, "/app", ["python", "x"], {"A": "b", "LD_PRELOAD": "/l.so"}, "/state/r") == {
        "argv": ["/bin/sh", "/state/r/enter-container", "/app", "python", "x"],
        "env": {"DDP_PLAY_INSIDE_A": "b", "DDP_PLAY_INSIDE_LD_PRELOAD": "/l.so"},
        "secret_prefix": "DDP_PLAY_INSIDE_",
        "workdir": "/",
        "step_options": ["--container-image=/x.sqsh", "--container-workdir=/app"],
    }
    assert entered("/app", [], "/d") == ["/bin/sh", "/d/enter-container", "/app"]
    assert entering_env({}) == {}
