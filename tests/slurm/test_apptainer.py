"""Ranks that the real Apptainer starts on nodes of Slurm: who failed, what ends them, and exported scripts."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.apptainer_image import made_image, mounts
from tests.run.conftest import alive, living
from tests.slurm.conftest import PATIENCE_S
from tests.slurm.image_jobs import SUM, WHERE
from tests.slurm.test_export import submit
from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.slurm.conftest import Login


@pytest.fixture
def image(tmp_path: Path) -> str:
    """A sandbox directory, which all nodes of this machine share."""
    return made_image(tmp_path / "image")


def test_the_first_failing_ranks_code_is_that_of_the_run_and_of_slurm(login: Login, image: str) -> None:
    command = WHERE + "[ $RANK = 2 ] && exit 9; exec sleep 60"
    done = login.play(*login.job(command, image=image, mounts=mounts()), "--name", "fails")
    assert done.code == 9, done.err
    assert "rank 2 on n2 failed first: exit code 9" in done.err
    job = login.slurm_job("fails")
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "9:0")
    logs = [(login.run_dir("fails") / "logs" / f"rank-{number}.log").read_text() for number in range(4)]
    assert logs == [f"rank {number} of 4 in the image\n" for number in range(4)]
    assert json.loads((login.run_dir("fails") / "plan.json").read_text())["runtime"] == "apptainer"


def test_ranks_of_torch_meet_in_images_of_two_nodes(login: Login, image: str) -> None:
    login.play.write("src/own.py", SUM)
    command = f"exec {sys.executable} own.py"
    done = login.play(*login.job(command, image=image, mounts=mounts(), source="src"), "--name", "sum")
    assert done.code == 0, done.err
    logs = [(login.run_dir("sum") / "logs" / f"rank-{number}.log").read_text() for number in range(4)]
    assert [text.splitlines()[-1] for text in logs] == ["sum 10"] * 4


def test_scancel_leaves_no_rank_and_a_whole_bundle(login: Login, image: str) -> None:
    login.play(*login.job("echo $$; exec sleep 300", image=image, mounts=mounts()), "--name", "cancelled", "-d")
    login.wait_for("cancelled", "running")
    logs = list(login.play.host_dir.glob("n*/runs/cancelled.*/1.*/logs/rank-*.log"))
    wait_until(lambda: all(path.read_text() for path in logs), timeout_s=PATIENCE_S, what="a pid in each log")
    pids = [int(path.read_text()) for path in logs]
    assert len(pids) == 4
    assert all(map(alive, pids))
    login.cluster.run("scancel", login.allocation("cancelled")["id"])
    done = login.play("attach", "cancelled")
    assert (done.code, "was cancelled" in done.err) == (130, True), done.err
    assert [row["log_complete"] for row in login.document("cancelled")["ranks"]] == [True] * 4
    wait_until(lambda: not any(map(alive, pids)), timeout_s=PATIENCE_S, what="the end of all ranks")


def test_an_exported_script_starts_the_same_image(login: Login, image: str) -> None:
    command = ["sh", "-c", WHERE + 'echo "$1"; [ $RANK = 2 ] && sleep 1 && exit 9; exec sleep 60', "x", "{rank}/4"]
    job, results = submit(login, command=command, image=image, mounts=mounts(), source=str(login.play.cwd))
    output = next(login.play.cwd.glob("slurm-*.out")).read_text()
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "9:0"), output
    assert (results / "rank-3.log").read_text().startswith("rank 3 of 4 in the image\n3/4\n")
    assert "rank 2 on n2 failed first: exit code 9" in output
    assert not living(f"{results}/home-")


def test_an_image_of_dockers_is_refused_with_the_name_that_apptainer_takes(login: Login) -> None:
    done = login.play(*login.job("true", image="team/train:2"))
    assert done.code == 64
    assert "ddp_job_runtime: apptainer with ddp_job_image: docker://team/train:2" in done.err
