"""`ddp-play collectives` with ranks that crash in a collective: the table has all others, of the runs that go on."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import pytest

from tests.run.conftest import LOCAL, Done, Play
from tests.schemas import check
from tests.waiting import wait_until
from trainer.collective_cases import CASES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dist, pytest.mark.runner]

NAMES = [case.name for case in CASES]
# Python reads it at the start of every rank: collectives of its torch crash or never return, on all ranks or on one.
PATCH = """
import os, signal, time
import torch.distributed as dist

def crash(*_arguments, **_options):
    os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(600)

def hang(*_arguments, **_options):
    time.sleep(600)

for rank, name, what in {calls}:
    if rank in ("all", os.environ.get("RANK")):
        setattr(dist, name, {{"crash": crash, "hang": hang}}[what])
"""


def words(play: Play, *calls: tuple[str, str, str]) -> tuple[str | Path, ...]:
    """The command, with ranks (`all` or a number) in which these functions of torch crash or hang."""
    path = play.write("patch/sitecustomize.py", PATCH.format(calls=calls))
    env = json.dumps({"ddp_job_env": {"PYTHONPATH": str(path.parent)}})
    return ("collectives", "-i", LOCAL, "--backend", "gloo", "--name", "try", "-e", env)


def answer(done: Done) -> dict[str, Any]:
    """The entry of gloo on the CPU, which fits the schema of the answer."""
    document = json.loads(done.out)
    check("collectives", document)
    (run,) = document["runs"]
    assert [row["name"] for row in run["result"]["collectives"]] == NAMES
    return dict(run)


def others(run: dict[str, Any]) -> dict[str, str]:
    """The collectives that do not work, with their status."""
    return {row["name"]: row["status"] for row in run["result"]["collectives"] if row["status"] != "works"}


def test_collectives_that_crash_are_results_and_those_after_them_are_tried(play: Play) -> None:
    calls = (("all", "all_gather_coalesced", "crash"), ("all", "scatter", "crash"))
    done = play(*words(play, *calls), "--json", timeout_s=180)
    assert done.code == 1, done.err
    run = answer(done)
    assert others(run) == {"all_gather_coalesced": "crashed", "scatter": "crashed"}, done.err
    assert (run["run"], run["exit_code"], run["result"]["status"]) == ("try-gloo-cpu", 1, "finished")
    assert [(row["run"], row["exit_code"]) for row in run["further_runs"]] == [
        ("try-gloo-cpu-2", 139),
        ("try-gloo-cpu-3", 0),
    ]
    told = "ended by signal 11 (SIGSEGV) in all_gather_coalesced; another run tries the collectives after it"
    assert told in done.err.replace("\n", " ")
    for bundle in play.runs():
        text = (bundle / "collectives.txt").read_text()
        assert "all_gather_coalesced: crashed: rank " in text
        assert json.loads((bundle / "collectives.json").read_text()) == json.loads(done.out)
        assert (
            "a crash: all_gather_coalesced on gloo cpu, scatter on gloo cpu"
            in (bundle / "collectives.html").read_text()
        )
    assert play.left_on_host() == []


@pytest.mark.long
def test_a_crash_of_rank_1_alone_after_a_hang_of_rank_0(play: Play) -> None:
    """Rank 0 sees a closed connection, which is no result of the collective; its hang before is one."""
    calls = (("0", "reduce", "hang"), ("1", "all_gather_coalesced", "crash"))
    done = play(*words(play, *calls), "--case-timeout", "3", "--json", timeout_s=180)
    run = answer(done)
    assert (done.code, others(run)) == (1, {"reduce": "hung", "all_gather_coalesced": "crashed"}), done.err
    (row,) = [row for row in run["result"]["collectives"] if row["status"] == "crashed"]
    assert (row["detail"], row["documented"]) == ("rank 1 on localhost ended by signal 11 (SIGSEGV)", True)
    assert [further["exit_code"] for further in run["further_runs"]] == [0]


@pytest.mark.long
def test_ctrl_c_in_the_run_after_a_crash(play: Play) -> None:
    calls = (("all", "all_gather_coalesced", "crash"), ("all", "gather", "hang"))
    child = play.start(*words(play, *calls), "--json")

    def hangs() -> bool:
        results = (play.host_dir / "runs").glob("try-gloo-cpu-2.*/1.localhost/rank-0/result.json")
        return any('"running": "gather"' in path.read_text() for path in results)

    wait_until(hangs, timeout_s=120, what="the second run in the collective that hangs")
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=90)
    done = Done(child.returncode, out, err)
    run = answer(done)
    assert (done.code, run["exit_code"], run["result"]["status"]) == (130, 130, "incomplete"), done.err
    at = NAMES.index("all_gather_coalesced")
    rest = dict.fromkeys(NAMES[at + 1 :], "not run")
    assert others(run) == {"all_gather_coalesced": "crashed", **rest}
    assert len(play.runs()) == 2, "a run that the user stopped is not repeated"


def test_a_failure_that_is_no_crash_is_reported_and_not_repeated(play: Play) -> None:
    """A rank whose Python ends with an exit code has no result."""
    play.write("patch/sitecustomize.py", "import os\nos._exit(7)\n")
    env = json.dumps({"ddp_job_env": {"PYTHONPATH": str(play.cwd / "patch")}})
    done = play("collectives", "-i", LOCAL, "--backend", "gloo", "-e", env, timeout_s=180)
    assert done.code == 7, done.err
    assert "gloo cpu: no result: rank " in done.out
    assert len(play.runs()) == 1
