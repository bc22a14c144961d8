"""What sbatch is given: options from the job, and a script that a person can read."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from ddp_play.engines.interface import Wanted
from ddp_play.engines.slurm_script import limit_s, sbatch_options, script, step_argv, time_limit
from ddp_play.planning.job import parse_job

if TYPE_CHECKING:
    from pathlib import Path


def wanted(directory: Path, **values: Any) -> Wanted:
    return Wanted("calm-otter", directory, parse_job({"command": ["true"], "hosts": "4", **values}))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5430),
        ("1:30:00", 5400),
        ("1-12", 129600),
        ("1-12:30:10", 131410),
        ("UNLIMITED", None),
        ("", None),
    ],
)
def test_slurms_times(text: str, seconds: float | None) -> None:
    assert limit_s(text) == seconds


@pytest.mark.parametrize(
    ("values", "limit"),
    [
        ({}, ""),
        ({"max_duration": "1h"}, "63"),
        ({"max_duration": "1h", "grace": "5m"}, "67"),
        ({"max_duration": "1h", "slurm": {"time": "2:00:00"}}, "2:00:00"),
    ],
)
def test_slurms_limit_is_the_net_below_the_jobs_own(values: dict[str, Any], limit: str) -> None:
    assert time_limit(parse_job({"command": ["true"], **values})) == limit


def test_options_come_from_the_job(tmp_path: Path) -> None:
    slurm = {"partition": "gpu", "account": 42, "gres": "gpu:8"}
    options = sbatch_options(wanted(tmp_path / "100%", hosts="2..4", grace=20, slurm=slurm))
    assert {"--nodes=2-4", "--ntasks-per-node=1", "--partition=gpu", "--account=42", "--gres=gpu:8"} <= set(options)
    assert "--signal=B:TERM@35" in options
    assert f"--output={tmp_path}/100%%/engine/output.log" in options, "sbatch replaces % in names of files"
    assert not any(option.startswith(("--qos", "--time", "--gpus-per-task")) for option in options)


def test_spare_nodes_are_asked_for_and_survive_the_loss_of_one(tmp_path: Path) -> None:
    options = sbatch_options(wanted(tmp_path, restarts=1, slurm={"spares": 2}))
    assert {"--nodes=6", "--no-kill"} <= set(options)
    assert not any("spares" in option for option in options)
    assert "--no-kill" not in sbatch_options(wanted(tmp_path))
    assert "--no-kill" not in sbatch_options(wanted(tmp_path, restarts=1)), "too few are left: Slurm requeues it"
    assert "--no-kill" in sbatch_options(wanted(tmp_path, restarts=1, hosts="2..4"))


@pytest.mark.parametrize(("restarts", "option"), [(0, "--no-requeue"), (1, "--requeue")])
def test_a_job_with_restarts_may_be_requeued(tmp_path: Path, restarts: int, option: str) -> None:
    found = [name for name in sbatch_options(wanted(tmp_path, restarts=restarts)) if name.endswith("requeue")]
    assert found == [option]


def test_one_number_of_nodes_is_no_range(tmp_path: Path) -> None:
    assert "--nodes=4" in sbatch_options(wanted(tmp_path))


def test_a_node_without_our_python_says_so(tmp_path: Path) -> None:
    path = tmp_path / "script.sh"
    path.write_text(script(wanted(tmp_path / "it's here"), "/no/such/python", {"DDP_PLAY_HOME": "/a b"}))
    done = subprocess.run(["/bin/sh", path], capture_output=True, text=True, check=False)
    assert (done.returncode, "has no /no/such/python: install ddp-play" in done.stdout) == (69, True)


def test_a_missing_python_is_named_and_no_command(tmp_path: Path) -> None:
    path, python = tmp_path / "script.sh", f"/no/it's $(touch {tmp_path}/made)/python"
    path.write_text(script(wanted(tmp_path), python, {}))
    done = subprocess.run(["/bin/sh", path], capture_output=True, text=True, check=False)
    assert f"has no {python}: install ddp-play" in done.stdout
    assert not (tmp_path / "made").exists()


def test_the_script_becomes_the_controller(tmp_path: Path) -> None:
    """`exec`: the exit code of the job is that of the run, and Slurm's signals reach the controller."""
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$DDP_PLAY_HOME" "$@"\nexit 9\n')
    python.chmod(0o755)
    path = tmp_path / "script.sh"
    path.write_text(script(wanted(tmp_path / "it's here"), str(python), {"DDP_PLAY_HOME": "/a b"}))
    done = subprocess.run(["/bin/sh", path], capture_output=True, text=True, check=False)
    assert done.returncode == 9
    assert done.stdout == f"/a b -m ddp_play.run.allocated_controller {tmp_path}/it's here\n"


def test_a_step_is_on_one_node_with_all_of_it() -> None:
    argv = step_argv("12", "n1", binding=True)
    assert argv[0] == "srun"
    assert argv[-2:] == ["/bin/sh", "-c"]
    (export,) = (word for word in argv if word.startswith("--export="))
    assert export.startswith("--export=HOME,LANG,LOGNAME,PATH,SHELL,USER,http_proxy,HTTP_PROXY,https_proxy,"), (
        "no secrets"
    )
    assert export.endswith(",NO_PROXY,ENROOT_CONFIG_PATH,DDP_PLAY_STEP=1")
    assert {"--overlap", "--jobid=12", "--nodelist=n1", "--cpu-bind=none", "--unbuffered"} <= set(argv)
    assert "--cpu-bind=none" not in step_argv("12", "n1", binding=False), "srun complains where nothing binds"
