"""Runs in a real queue: why they wait, what ends them before they start, and what is refused before it is submitted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.waiting import wait_until

if TYPE_CHECKING:
    from tests.slurm.conftest import Login


def test_a_waiting_run_says_why_and_starts_by_itself(login: Login, busy: str) -> None:
    login.play(*login.job("exit 0"), "--name", "queued", "-d")

    def why() -> str:
        row = login.play("ps", "--json").json["runs"][0]
        assert row["status"] == "waiting"
        return str(row["message"])

    wait_until(lambda: "Resources (the nodes are in use), number 1 of 1 pending in main" in why(), timeout_s=30)
    login.cluster.run("scancel", busy)
    done = login.play("attach", "queued")
    assert done.code == 0, done.err


def test_a_run_that_is_cancelled_while_it_waits(login: Login, busy: str) -> None:
    assert busy
    login.play(*login.job("exit 0"), "--name", "waits", "-d")
    job_id = login.allocation("waits")["id"]
    login.cluster.run("scancel", job_id)
    done = login.play("attach", "waits")
    assert done.code == 130
    assert f"slurm job {job_id} was cancelled while it was pending" in done.err


def test_stop_takes_a_waiting_run_out_of_the_queue(login: Login, busy: str) -> None:
    login.play(*login.job("exit 0"), "--name", "waits", "-d")
    stopped = login.play("stop", "waits", "--json").json
    assert (stopped["status"], stopped["verdict"]["message"]) == ("stopped", "stopped before it started")
    assert login.cluster.run("squeue", "-h", "-o", "%i").split() == [busy]


def test_an_interrupted_view_takes_a_waiting_run_out_of_the_queue(login: Login, busy: str) -> None:
    child = login.play.start(*login.job("exit 0"), "--name", "waits")
    wait_until((login.run_dir("waits") / "engine" / "allocation.json").exists, timeout_s=60)
    child.terminate()
    _, err = child.communicate(timeout=60)
    assert (child.returncode, "stopped before it started" in err) == (130, True), err
    assert login.cluster.run("squeue", "-h", "-o", "%i").split() == [busy]


def test_a_requeued_job_does_not_start_its_run_again(login: Login) -> None:
    login.play(*login.job("exec sleep 300"), "--name", "again", "-d")
    login.wait_for("again", "running")
    job_id = login.allocation("again")["id"]
    login.cluster.run("scontrol", "update", f"JobId={job_id}", "Requeue=1")
    login.cluster.run("scontrol", "requeue", job_id)
    done = login.play("attach", "again")
    assert (done.code, f"Slurm job {job_id} was requeued" in done.err) == (75, True)


def test_what_can_never_start_ends_with_the_reason(login: Login, busy: str) -> None:
    """The partition's limit is lowered while the job waits."""
    child = login.play.start(*login.job("exit 0"), "--name", "never", "--slurm", "time=30")
    wait_until((login.run_dir("never") / "engine" / "allocation.json").exists, timeout_s=60)
    login.cluster.run("scontrol", "update", "PartitionName=main", "MaxTime=20")
    try:
        _, err = child.communicate(timeout=60)
    finally:
        login.cluster.run("scontrol", "update", "PartitionName=main", "MaxTime=60")
    assert child.returncode == 64
    assert "can never start: its time limit is over that of its partition" in err
    assert login.cluster.run("squeue", "-h", "-o", "%i").split() == [busy]


REFUSED: dict[str, tuple[list[str], dict[str, Any], int, str]] = {
    "partition": (["--slurm", "partition=nope"], {}, 64, "this cluster has no partition nope"),
    "nodes": ([], {"hosts": 9}, 64, "the job wants 9 nodes, and partition main has 3"),
    "time": (["--slurm", "partition=small", "--slurm", "time=90"], {"hosts": 1}, 64, "partition small allows 2 min"),
    "constraint": (["--slurm", "constraint=moon"], {}, 64, "Slurm refuses the job: Batch job submission failed"),
    "grace": ([], {"grace": 60}, 69, "kills what is left after KillWait=30 s"),
}


@pytest.mark.parametrize("row", REFUSED)
def test_what_the_cluster_cannot_run_is_refused_before_it_waits(login: Login, row: str) -> None:
    options, variables, code, message = REFUSED[row]
    done = login.play(*login.job("exit 0", **variables), *options)
    assert (done.code, message in done.err) == (code, True), done.err
    assert not login.cluster.run("squeue", "-h").strip()
