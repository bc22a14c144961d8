"""Exported scripts on a real Slurm cluster, without ddp-play: who failed first, and what the ranks get and are told."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.slurm.conftest import LONG, PATIENCE_S
from tests.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.slurm.conftest import Login

FAILS = """
trap 'echo told to end; exit 3' TERM
echo "$GREETING" $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR "$@"
if [ $RANK = 2 ]; then  # once all have set their traps
  for _ in $(seq 600); do
    [ "$(cat ddp-play-slurm-$SLURM_JOB_ID/rank-*.log | grep -c ' --rank=')" = 4 ] && break
    sleep 0.1
  done
  exit 9
fi
while :; do sleep 60 & wait; done  # its child may be told first
"""


def submit(
    login: Login, *options: str, act: Callable[[str, Path], None] | None = None, **variables: Any
) -> tuple[dict[str, str], Path]:
    """Export and submit a job; its Slurm job when it is over, and the directory of its logs. `act` gets both before."""
    values = {"hosts": 2, "ranks_per_host": 2, "gpus": "none", **variables}
    done = login.play("export", login.play.job(values), "--to", "slurm", "--output", "ex.sh", *options)
    assert done.code == 0, done.err
    directory = login.play.cwd
    job_id = login.cluster.run("sbatch", "--parsable", f"--chdir={directory}", str(directory / "ex.sh")).strip()
    if act:
        act(job_id, directory / f"ddp-play-slurm-{job_id}")
    over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT")
    wait_until(lambda: login.cluster.job(job_id)["JobState"] in over, timeout_s=PATIENCE_S, what="the end of the job")
    return login.cluster.job(job_id), directory / f"ddp-play-slurm-{job_id}"


def test_the_first_failing_ranks_code_is_slurms_and_the_others_are_told(login: Login) -> None:
    command = ["bash", "-c", FAILS, "it's", "--rank={rank}/{world_size}", '{"a": 1}']
    job, results = submit(login, command=command, env={"GREETING": 'say "hi" $HOME'}, workdir=str(login.play.cwd))
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "9:0")
    first = (results / "rank-0.log").read_text().splitlines()
    assert first == ['say "hi" $HOME 0 0 4 n1 --rank=0/4 {"a": 1}', "told to end"]
    assert (results / "rank-3.log").read_text().startswith('say "hi" $HOME 3 1 4 n1 --rank=3/4')
    output = next(login.play.cwd.glob("slurm-*.out")).read_text()
    assert "rank 2 on n2 failed first: exit code 9" in output


def test_a_job_that_succeeds_ends_with_0(login: Login) -> None:
    job, results = submit(login, command=["sh", "-c", "exit 0"], workdir=str(login.play.cwd))
    assert (job["JobState"], job["ExitCode"]) == ("COMPLETED", "0:0")
    assert not list(results.glob("failed-*"))


ENDS: dict[str, tuple[list[str], str, str]] = {
    "SIGKILL": (["sh", "-c", "[ $RANK = 2 ] && sleep 1 && kill -9 $$; exec sleep 60"], "137:0", "exit code 137"),
    "import error": ([sys.executable, "-c", "import nobody_has_this"], "1:0", "ModuleNotFoundError"),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_output_says_which_rank_failed_and_how(login: Login, end: str) -> None:
    command, code, words = ENDS[end]
    job, _ = submit(login, command=command, workdir=str(login.play.cwd))
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", code)
    output = next(login.play.cwd.glob("slurm-*.out")).read_text()
    assert re.search(r"rank \d on n\d failed first: ", output), output
    assert words in output


def test_scancel_tells_the_ranks_and_keeps_their_logs(login: Login) -> None:
    def cancel(job_id: str, results: Path) -> None:
        wait_until((results / "rank-3.log").exists, timeout_s=PATIENCE_S, what="rank 3 runs")
        wait_until(
            lambda: "ready" in (results / "rank-3.log").read_text(), timeout_s=PATIENCE_S, what="rank 3 is ready"
        )
        login.cluster.run("scancel", job_id)

    command = ["bash", "-c", "trap 'echo told to end; exit 3' TERM; echo ready; while :; do sleep 60 & wait; done"]
    job, results = submit(login, act=cancel, command=command, workdir=str(login.play.cwd))
    assert job["JobState"] == "CANCELLED"
    log = results / "rank-3.log"
    wait_until(lambda: "told to end" in log.read_text(), timeout_s=PATIENCE_S, what="rank 3 is told to end")


@LONG
def test_a_dead_daemon_is_not_called_a_directory_that_is_not_shared(login: Login) -> None:
    login.cluster.kill_node("n2")
    try:
        job, results = submit(login, command=["sleep", "60"], workdir=str(login.play.cwd))
    finally:
        login.cluster.start_node("n2")
        login.cluster.wait_idle(PATIENCE_S)
    assert (job["JobState"], job["ExitCode"]) == ("FAILED", "69:0")
    output = next(login.play.cwd.glob("slurm-*.out")).read_text()
    assert "srun could not start on all of n1 n2" in output
    assert "all nodes share" not in output
    assert not list(results.glob("rank-*"))
