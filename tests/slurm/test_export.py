"""Exported scripts on a real Slurm cluster, without ddp-play: who failed first, and what the ranks get and are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.slurm.conftest import Login

PATIENCE_S = 90.0
FAILS = """
trap 'echo told to end; exit 3' TERM
echo "$GREETING" $RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR "$@"
[ $RANK = 2 ] && sleep 1 && exit 9
sleep 60 & wait
"""


def submit(login: Login, *options: str, **variables: Any) -> tuple[dict[str, str], Path]:
    """Export and submit a job; its Slurm job when it is over, and the directory of its logs."""
    values = {"hosts": 2, "ranks_per_host": 2, "gpus": "none", **variables}
    done = login.play("export", login.play.job(values), "--to", "slurm", "--output", "ex.sh", *options)
    assert done.code == 0, done.err
    directory = login.play.cwd
    job_id = login.cluster.run("sbatch", "--parsable", f"--chdir={directory}", str(directory / "ex.sh")).strip()
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
