"""Whole runs on a real Slurm cluster: who failed, Slurm's own exit code, logs, and what ends a job from outside."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.run.conftest import living
from tests.slurm.conftest import LONG, Login

if TYPE_CHECKING:
    from pathlib import Path

FAILS = "echo rank $RANK of $WORLD_SIZE; [ $RANK = 2 ] && exit 9; exec sleep 60"
WAITS = "echo rank $RANK of $WORLD_SIZE; exec sleep 300"


def test_the_first_failing_ranks_code_is_that_of_the_run_and_of_slurm(login: Login, tmp_path: Path) -> None:
    done = login.play(*login.job(FAILS, before=str(tmp_path / "touched")), "--name", "fails")
    assert done.code == 9, done.err
    assert "rank 2 on n2 failed first: exit code 9" in done.err
    assert (tmp_path / "touched").exists(), "a task of the playbook runs on a node"
    job = login.slurm_job("fails")
    assert (job["JobState"], job["ExitCode"], job["NumNodes"]) == ("FAILED", "9:0", "2")
    assert login.document("fails")["hosts"] == ["n1", "n2"]
    logs = {number: (login.run_dir("fails") / "logs" / f"rank-{number}.log").read_text() for number in range(4)}
    assert logs == {number: f"rank {number} of 4\n" for number in range(4)}
    assert login.play.left_on_host() == [str(login.play.host_dir / "runs")] or not login.play.left_on_host()


def test_a_run_is_followed_and_stopped_from_the_login_node(login: Login) -> None:
    assert login.play(*login.job(WAITS), "--name", "waits", "-d").out == "waits\n"
    login.wait_for("waits", "running")
    rows = login.play("ps", "--json").json["runs"]
    assert [(row["status"], row["attended"], row["hosts"]) for row in rows] == [("running", True, ["n1", "n2"])]
    inside = login.play("exec", "waits", "--rank", "3", "--", "sh", "-c", "echo $RANK; exit 5")
    assert (inside.code, inside.out) == (5, "3\n")
    watching = login.play.start("attach", "waits")
    assert login.play("stop", "waits", "--json").json["status"] == "stopped"
    assert watching.wait(timeout=60) == 130
    assert login.slurm_job("waits")["ExitCode"] == "130:0"


@LONG
def test_a_lost_step_is_opened_again_and_no_rank_ends(login: Login) -> None:
    """The guard lives in the step that started it, and that step outlives its srun."""
    login.play(*login.job("sleep 12; exit 0"), "--name", "cut", "-d")
    login.wait_for("cut", "running")
    groups = {os.getpgid(pid) for pid in living("nodelist=n2")}
    assert groups
    for group in groups:
        os.killpg(group, signal.SIGKILL)  # as a closed channel does; srun's second process would end the step
    done = login.play("attach", "cut")
    assert done.code == 0, done.err
    events = (login.run_dir("cut") / "events.jsonl").read_text()
    assert '"state": "back"' in events


def test_scancel_leaves_a_whole_bundle_that_says_so(login: Login) -> None:
    login.play.environment["DDP_PLAY_REPORT"] = "yes"
    login.play(*login.job(WAITS), "--name", "cancelled", "-d")
    login.wait_for("cancelled", "running")
    job_id = login.allocation("cancelled")["id"]
    login.cluster.run("scancel", job_id)
    done = login.play("attach", "cancelled")
    assert done.code == 130
    assert f"Slurm job {job_id} was cancelled" in done.err
    assert f"Slurm job {job_id} was cancelled" in (login.run_dir("cancelled") / "report.html").read_text()
    document = login.document("cancelled")
    assert (document["status"], document["missing"], document["left_behind"]) == ("stopped", [], {})
    assert [row["log_complete"] for row in document["ranks"]] == [True] * 4


@LONG
def test_slurms_time_limit_ends_a_run_gracefully(login: Login) -> None:
    done = login.play(*login.job(WAITS, grace=1), "--name", "long", "--slurm", "time=1", timeout_s=150)
    assert done.code == 124
    assert "reached Slurm's time limit" in done.err
    assert login.slurm_job("long")["ExitCode"] == "124:0"
    assert login.document("long")["left_behind"] == {}


@LONG
def test_a_run_whose_controller_is_killed_still_ends_with_its_reason(login: Login) -> None:
    """SIGKILL of all that could write how the run ended: whoever looks next writes it, from what Slurm says."""
    login.play(*login.job(WAITS), "--name", "killed", "-d")
    login.wait_for("killed", "running")
    for pid in living(str(login.run_dir("killed"))):
        os.kill(pid, signal.SIGKILL)
    job = login.slurm_job("killed")
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "0:9")
    done = login.play("attach", "killed")
    assert done.code == 70
    assert f"slurm job {job['JobId']} had its controller killed by signal 9" in done.err
    assert [(row["status"], row["attended"]) for row in login.play("ps", "--json").json["runs"]] == [("failed", False)]
