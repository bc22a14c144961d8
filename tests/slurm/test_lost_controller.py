"""Runs whose controller is lost: its script, its background process, or the node that both are on."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from tests.run.conftest import living
from tests.slurm.conftest import LONG

if TYPE_CHECKING:
    from tests.slurm.conftest import Login

WAITS = "echo rank $RANK of $WORLD_SIZE; exec sleep 300"


def of_the_run(login: Login, name: str, module: str) -> list[int]:
    """Processes of this module for this run."""
    mine = str(login.run_dir(name))
    return [pid for pid in living(f"ddp_play.run.{module}") if pid in living(mine)]


def test_a_killed_script_is_named_and_nothing_is_left(login: Login) -> None:
    """Slurm then ends the steps, whose guards only know that they were asked to end."""
    login.play(*login.job(WAITS), "--name", "headless", "-d")
    login.wait_for("headless", "running")
    (script,) = of_the_run(login, "headless", "allocated_controller")
    os.kill(script, signal.SIGKILL)
    done = login.play("attach", "headless")
    job_id = login.allocation("headless")["id"]
    message = f"slurm job {job_id} had its controller killed by signal 9"
    assert (done.code, message in done.err) == (70, True), done.err
    document = login.document("headless")
    assert (document["status"], document["exit_class"], document["left_behind"]) == ("failed", "internal", {})
    assert [row["log_complete"] for row in document["ranks"]] == [True] * 4
    assert login.slurm_job("headless")["ExitCode"] == "0:9"
    (row,) = login.play("ps", "--json").json["runs"]
    assert (row["status"], row["attended"], row["message"]) == ("failed", False, message)
    shown = login.play("results", "headless")
    assert (shown.code, message in shown.out) == (70, True)
    assert not [path for path in login.play.host_dir.rglob("*") if path.name.startswith("headless.")]


@LONG
def test_a_killed_supervisor_is_replaced_and_the_ranks_go_on(login: Login) -> None:
    login.play(*login.job("sleep 6; exit 0"), "--name", "survivor", "-d")
    login.wait_for("survivor", "running")
    mine = {*living(str(login.run_dir("survivor")))}
    supervising = mine & {*living("ddp_play.run.background_process"), *living("ansible-playbook")}
    assert supervising
    for pid in supervising:
        os.kill(pid, signal.SIGKILL)
    done = login.play("attach", "survivor")
    assert done.code == 0, done.err
    assert "the supervisor died; another one takes over" in (login.run_dir("survivor") / "events.jsonl").read_text()
    assert login.slurm_job("survivor")["ExitCode"] == "0:0"


@LONG
def test_a_lost_batch_host_is_named(login: Login) -> None:
    login.play(*login.job(WAITS), "--name", "dark", "-d")
    login.wait_for("dark", "running")
    login.cluster.power_off("n1", str(login.play.host_dir / "n1"))
    try:
        done = login.play("attach", "dark", timeout_s=180)
    finally:
        login.bring_back("n1")
    job_id = login.allocation("dark")["id"]
    assert (done.code, f"slurm job {job_id} lost node n1" in done.err) == (69, True), done.err
    assert login.document("dark")["exit_class"] == "host_lost"
    assert {row["host"] for row in login.document("dark")["uncollected"]} == {"n1", "n2"}
