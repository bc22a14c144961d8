"""Runs whose job Slurm requeues, for a job of a higher priority, a person or a lost node: they go on in other nodes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.slurm.conftest import LONG, PATIENCE_S
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slurm.conftest import Login

# Every rank saves its step; the first attempt does not get to the end before it is ended.
TRAINS = """
saved=CHECKPOINTS/rank-$RANK
step=$(cat $saved 2>/dev/null || echo 0)
echo attempt $DDP_PLAY_ATTEMPT starts at step $step
[ $step -gt 0 ] && exit 0
echo 7 > $saved
exec sleep 300
"""


class Training:
    """A job that goes on from a checkpoint in a directory that all nodes have."""

    def __init__(self, login: Login, name: str, **variables: Any) -> None:
        self.login, self.name = login, name
        self.checkpoints = login.play.cwd / "checkpoints"
        self.checkpoints.mkdir()
        command = TRAINS.replace("CHECKPOINTS", str(self.checkpoints))
        self.job = login.job(command, **{"restarts": 1, "lease": 10, "grace": 1, **variables})
        playbook = login.play.cwd / f"{name}.yml"  # another job's playbook would take its place
        self.job[1] = (login.play.cwd / "job.yml").rename(playbook)

    def start(self) -> str:
        """Start it, and wait until all ranks have saved; the id of its Slurm job."""
        self.login.play(*self.job, "--name", self.name, "-d")
        self.login.wait_for(self.name, "running")
        num_ranks = self.login.document(self.name)["world_size"]
        wait_until(lambda: len(list(self.checkpoints.iterdir())) == num_ranks, timeout_s=30, what="the checkpoints")
        return str(self.login.allocation(self.name)["id"])

    def starts_soon(self, job_id: str) -> None:
        """Slurm lets a requeued job wait for its BeginTime, unless its user says otherwise."""
        pending = ("PENDING", "REQUEUED")
        wait_until(
            lambda: self.login.cluster.job(job_id)["JobState"] in pending, timeout_s=PATIENCE_S, what="the requeue"
        )
        self.login.cluster.run("scontrol", "update", f"JobId={job_id}", "StartTime=now")

    def ended(self) -> dict[str, object]:
        """The run's run.json at its end: it went on from the checkpoint."""
        done = self.login.play("attach", self.name, timeout_s=180)
        assert done.code == 0, done.err
        logs = [self.directory / "attempts" / "1" / "logs", self.directory / "logs"]
        texts = [(directory / "rank-0.log").read_text() for directory in logs]
        assert texts == ["attempt 1 starts at step 0\n", "attempt 2 starts at step 7\n"]
        return self.login.document(self.name)

    @property
    def directory(self) -> Path:
        return self.login.run_dir(self.name)


def first_attempt(document: dict[str, object]) -> dict[str, object]:
    """The row of the attempt that was ended."""
    rows = document["attempts"]
    assert isinstance(rows, list)
    assert [row["attempt"] for row in rows] == [1, 2]
    row: dict[str, object] = rows[0]
    return row


def test_a_preempted_job_goes_on_from_its_checkpoint(login: Login) -> None:
    """Two jobs compete for the same nodes; that of the partition with the higher priority gets them at once."""
    training = Training(login, "patient")
    job_id = training.start()
    urgent = login.job("sleep 1", hosts=3, ranks_per_host=1)
    first = login.play(*urgent, "--name", "urgent", "--slurm", "partition=urgent", timeout_s=120)
    assert first.code == 0, first.err
    training.starts_soon(job_id)
    document = training.ended()
    row = first_attempt(document)
    assert (row["reason"], row["requeued"]) == (f"Slurm job {job_id} was preempted by another job", True)
    assert login.slurm_job("patient")["Restarts"] == "1"
    assert (document["missing"], document["left_behind"]) == ([], {})
    outcome = json.loads((training.directory / "attempts" / "1" / "outcome.json").read_text())
    assert [row["log_complete"] for row in outcome["ranks"]] == [True] * 4


@LONG
def test_an_administrators_requeue_is_an_attempt_too(login: Login) -> None:
    training = Training(login, "again")
    job_id = training.start()
    port = login.document("again")["head_port"]
    login.cluster.run("scontrol", "requeue", job_id)
    wait_until(lambda: login.play("ps", "--json").json["runs"][0]["status"] == "waiting", timeout_s=PATIENCE_S)
    training.starts_soon(job_id)
    document = training.ended()
    assert first_attempt(document)["reason"] == f"Slurm job {job_id} was requeued"
    assert document["head_port"] != port
    assert login.slurm_job("again")["ExitCode"] == "0:0"


def test_restarts_are_counted_across_requeues(login: Login) -> None:
    """In its last attempt the job may not be requeued any more: Slurm ends it, and the run has the reason."""
    login.play(*login.job("exec sleep 300", restarts=1, grace=1), "--name", "twice", "-d")
    wait_for_attempt(login, "twice", 1)
    job_id = str(login.allocation("twice")["id"])
    login.cluster.run("scontrol", "requeue", job_id)
    wait_until(lambda: login.cluster.job(job_id)["JobState"] == "PENDING", timeout_s=PATIENCE_S)
    login.cluster.run("scontrol", "update", f"JobId={job_id}", "StartTime=now")
    wait_for_attempt(login, "twice", 2)
    options = ("--partition=urgent", "--exclusive", "--nodes=3", "--time=5", "--output=/dev/null")
    login.cluster.run("sbatch", *options, "--wrap", "sleep 1")
    done = login.play("attach", "twice")
    assert (done.code, f"Slurm job {job_id} was preempted by another job" in done.err) == (75, True), done.err
    assert login.document("twice")["attempts"][-1]["reason"] == "attempt 2 of 2: ddp_job_restarts is 1"
    assert login.slurm_job("twice")["JobState"] == "PREEMPTED"


def wait_for_attempt(login: Login, name: str, attempt: int) -> None:
    """Wait until the ranks of this attempt run."""

    def runs() -> bool:
        document = login.document(name)
        return (document.get("attempt"), document["status"]) == (attempt, "running")

    wait_until(runs, timeout_s=PATIENCE_S, what=f"attempt {attempt}")


@LONG
def test_too_few_nodes_left_lead_to_a_requeue(login: Login) -> None:
    training = Training(login, "short", hosts=3, ranks_per_host=1, host_timeout=6)
    job_id = training.start()
    login.cluster.power_off("n3", str(login.play.host_dir / "n3"))
    try:
        wait_until(lambda: login.cluster.job(job_id)["JobState"] == "PENDING", timeout_s=PATIENCE_S)
    finally:
        login.bring_back("n3")
    training.starts_soon(job_id)
    assert "too few hosts are left" in str(first_attempt(training.ended())["reason"])


@LONG
def test_a_lost_batch_host_is_named_and_the_job_goes_on_elsewhere(login: Login) -> None:
    training = Training(login, "headless", host_timeout=6)
    job_id = training.start()
    login.cluster.power_off("n1", str(login.play.host_dir / "n1"))
    try:
        wait_until(lambda: login.cluster.job(job_id)["JobState"] == "PENDING", timeout_s=180)
        training.starts_soon(job_id)
        row = first_attempt(training.ended())
        assert "n1" in str(row["reason"])
    finally:
        login.bring_back("n1")
