"""The gang starts again after failures of the infrastructure, from its newest complete checkpoint, and only then."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.endings import kill_each
from tests.run.conftest import ROOT, Play, alive, living
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]

TRAIN = ["python", "-m", "trainer", "train", "--epochs", "1", "--checkpoint-every", "3", "--sleep-per-step", "0.1"]


def fleet(play: Play, *names: str, spares: tuple[str, ...] = ()) -> Path:
    """Several hosts with one slot each that are all this machine, and a directory that they share."""
    shared = play.cwd / "shared"
    shared.mkdir(exist_ok=True)
    common = {
        "ansible_connection": "local",
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "ddp_python": "{{ ansible_playbook_python }}",
        "ddp_shared_dir": str(shared),
        "ddp_slots": 1,
    }
    groups = {"ranks": {"hosts": dict.fromkeys(names)}, "spares": {"hosts": dict.fromkeys(spares)}}
    return play.write("fleet.yml", json.dumps({"all": {"vars": common, "children": groups}}))


def job(play: Play, **variables: Any) -> Path:
    """A job of the reference trainer that restarts."""
    wanted = {"source": str(ROOT), "source_include": ["trainer"], "command": TRAIN, "restarts": 1, **variables}
    path = play.job(wanted)
    document = json.loads(path.read_text())
    document[0]["hosts"] = "ranks:spares"
    path.write_text(json.dumps(document))
    return path


def checkpoints(play: Play) -> list[Path]:
    """The complete checkpoints in the shared working directory, oldest first."""
    return sorted((play.cwd / "shared").glob(".ddp-play/*/src/checkpoints/step-*"))


def rank_pid(play: Play, run: str, rank: int, host: str, attempt: int = 1) -> int:
    """The process of one rank that has started; its first line may be here before the guard has written its pid."""
    state = play.place(run, attempt, host) / "state.json"
    return int(wait_until(lambda: json.loads(state.read_text())["ranks"][str(rank)]["pid"], what="the pid of the rank"))


def guard_pid(play: Play, run: str, host: str, attempt: int = 1) -> int:
    """The guard of a host."""
    state = play.place(run, attempt, host) / "state.json"
    return int(json.loads(state.read_text())["guard_pid"])


def digest(run: Path) -> str:
    """What the run trained."""
    return str(json.loads((run / "results" / "rank-0.json").read_text())["parameters_sha256"])


@pytest.fixture
def undisturbed(play: Play) -> str:
    """The parameters that two ranks end with when nothing happens to them."""
    done = play("run", job(play, restarts=0), "-i", fleet(play, "a", "b"), timeout_s=240)
    assert done.code == 0, done.err
    return digest(play.newest())


def test_a_killed_rank_restarts_the_gang_from_its_checkpoint(play: Play, undisturbed: str) -> None:
    child = play.start("run", job(play), "-i", fleet(play, "a", "b"), "--name", "again")
    wait_until(lambda: len(checkpoints(play)) > 1, timeout_s=120, what="two checkpoints")
    os.kill(rank_pid(play, "again", 1, "b"), signal.SIGKILL)
    torn = checkpoints(play)[-1] / "weights.pt"  # as a crash in the middle of a write leaves it
    torn.write_bytes(torn.read_bytes()[:1000])
    out, err = child.communicate(timeout=240)
    run = play.home / "runs" / "again"
    document = play.document(run)
    assert child.returncode == 0, err
    assert "resuming after step" in out
    assert digest(run) == undisturbed
    first = document["attempts"][0]
    assert (first["attempt"], first["verdict"], first["fault"]) == (1, "rank_failed", "b")
    assert first["reason"] == "rank 1 on b was killed from outside"
    assert document["attempt"] == 2
    archived = run / "attempts" / "1"
    assert json.loads((archived / "outcome.json").read_text())["verdict"]["rank"] == 1
    assert (archived / "logs" / "rank-0.log").stat().st_size
    assert (archived / "plan.json").exists()
    assert (archived / "env" / "rank-1.env").exists()
    assert "DDP_PLAY_ATTEMPT=2" in (run / "env" / "rank-1.env").read_text()
    assert play.left_on_host() == []
    assert list((play.cwd / "shared").glob(".ddp-play/*")) == []
    wait_until(lambda: not living(str(play.host_dir)), timeout_s=60, what="all processes of the run end")


# Each attempt says so and lasts until the test lets it end, or ends at once in a later one.
WAITS = "echo attempt $DDP_PLAY_ATTEMPT; test $DDP_PLAY_ATTEMPT -gt {last} || exec sleep 600"
FAST = {"lease": 5, "grace": 1}


def waiting(play: Play, *, last: int = 1, **variables: Any) -> Path:
    """A job without torch whose attempts up to `last` wait to be disturbed."""
    command = ["sh", "-c", WAITS.format(last=last)]
    return job(play, source="", command=command, source_include=[], **{**FAST, **variables})


def begun(play: Play, run: str, attempt: int, ranks: int = 2) -> bool:
    """Has every rank of the attempt said so?"""
    logs = [play.home / "runs" / run / "logs" / f"rank-{rank}.log" for rank in range(ranks)]
    return all(log.exists() and log.read_bytes() == b"attempt %d\n" % attempt for log in logs)


def test_the_same_fault_twice_ends_the_run_with_it(play: Play) -> None:
    child = play.start("run", waiting(play, last=2), "-i", fleet(play, "a", "b"), "--name", "twice")
    for attempt in (1, 2):
        wait_until(functools.partial(begun, play, "twice", attempt), timeout_s=90, what="an attempt")
        os.kill(rank_pid(play, "twice", 1, "b", attempt), signal.SIGKILL)
    out, err = child.communicate(timeout=90)
    assert child.returncode == 128 + signal.SIGKILL, err
    document = play.document(play.home / "runs" / "twice")
    assert [row["fault"] for row in document["attempts"]] == ["b", "b"]
    assert "rank 1 on b failed first" in err
    assert "no restart: attempt 2 of 2: ddp_job_restarts is 1" in err
    assert out == "a:0: attempt 1\na:0: attempt 2\n", "the view goes on with the next attempt's log"
    assert play("logs", "twice", "--attempt", "1", "--rank", "1").out == "b:1: attempt 1\n"
    assert play("logs", "twice", "--attempt", "3").code == 64
    assert play.left_on_host() == []


def test_a_restart_for_an_exit_code_names_the_error(play: Play) -> None:
    raises = "import os, sys; int(os.environ['DDP_PLAY_ATTEMPT']) > 1 or sys.exit(int('no number'))"
    wanted = {"source": "", "source_include": [], "command": ["python", "-c", raises], "restart_exit_codes": [1]}
    done = play("run", job(play, **FAST, **wanted), "-i", fleet(play, "a"), "--name", "raises")
    assert done.code == 0, done.err
    (line,) = [line for line in done.err.splitlines() if "restarting as attempt 2" in line]
    assert (
        "rank 0 on a ended with exit code 1 (ddp_job_restart_exit_codes): ValueError: invalid literal for int()" in line
    )
    assert play.document(play.home / "runs" / "raises")["attempt"] == 2
    assert play.left_on_host() == []


def test_a_file_that_cannot_be_removed_forbids_no_restart(play: Play) -> None:
    """No rank runs any more: that is what another attempt depends on."""
    script = (
        "test $DDP_PLAY_ATTEMPT = 1 || exit 0; cd $(dirname $DDP_PLAY_METRICS); touch stuck; chattr +i stuck; exit 75"
    )
    wanted = {"source": "", "source_include": [], "command": ["sh", "-c", script], "restart_exit_codes": [75]}
    try:
        done = play("run", job(play, **FAST, **wanted), "-i", fleet(play, "a"), "--name", "stuck")
        document = play.document(play.home / "runs" / "stuck")
        assert (done.code, document["attempt"]) == (0, 2), done.err
        assert "stuck: Operation not permitted" in str(document["left_behind"])
    finally:
        for path in [*play.host_dir.rglob("stuck"), *play.cwd.rglob("stuck")]:
            if path.is_file():
                subprocess.run(["chattr", "-i", str(path)], check=True)
    assert play("gc", "-i", fleet(play, "a"), "--run", "stuck", "--yes").code == 0
    assert play.left_on_host() == []


def test_a_host_whose_guard_is_gone_gives_way_to_a_spare(play: Play) -> None:
    child = play.start("run", waiting(play), "-i", fleet(play, "a", "b", spares=("c",)), "--name", "spare")
    wait_until(lambda: begun(play, "spare", 1), timeout_s=60, what="both ranks")
    rank = rank_pid(play, "spare", 1, "b")
    os.kill(guard_pid(play, "spare", "b"), signal.SIGKILL)
    _, err = child.communicate(timeout=90)
    assert child.returncode == 0, err
    document = play.document(play.home / "runs" / "spare")
    assert document["hosts"] == ["a", "c"]
    assert list(document["attempts"][0]["retired"]) == ["b"]
    assert "replacement host: c" in err
    assert not alive(rank), "no rank outlives its guard into the next attempt"
    assert play.left_on_host() == []


def test_whoever_takes_over_can_start_it_again(play: Play) -> None:
    play("run", waiting(play, lease="10m"), "-i", fleet(play, "a", "b"), "-d", "--name", "orphan")
    wait_until(lambda: begun(play, "orphan", 1), timeout_s=60, what="both ranks")
    guards = {guard_pid(play, "orphan", host) for host in "ab"}
    kill_each(set(living(str(play.home / "runs" / "orphan"))) - guards)
    child = play.start("attach", "orphan")
    wait_until(lambda: play("ps", "--json").json["runs"][0]["attended"], what="it is taken over")
    os.kill(rank_pid(play, "orphan", 0, "a"), signal.SIGKILL)
    _, err = child.communicate(timeout=90)
    assert child.returncode == 0, err
    assert play.document(play.home / "runs" / "orphan")["attempt"] == 2
    assert play.left_on_host() == []


def test_a_stop_is_no_failure(play: Play) -> None:
    play("run", waiting(play), "-i", fleet(play, "a", "b"), "-d", "--name", "stopped")
    wait_until(lambda: begun(play, "stopped", 1), timeout_s=60, what="both ranks")
    play("stop", "stopped", "--now")
    document = play.document(play.home / "runs" / "stopped")
    assert (document["status"], document["attempt"]) == ("stopped", 1)
    assert play.left_on_host() == []


def test_a_spare_stands_in_from_the_start_where_a_host_is_away(play: Play) -> None:
    inventory = fleet(play, "a", "away", spares=("c",))
    data = json.loads(inventory.read_text())
    away = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 9}
    data["all"]["children"]["ranks"]["hosts"]["away"] = away
    inventory.write_text(json.dumps(data))
    done = play("run", waiting(play, last=0), "-i", inventory)
    assert done.code == 0, done.err
    assert play.document()["hosts"] == ["a", "c"]
    assert "left out away" in done.err


# Leaves a checkpoint, and what makes every later attempt's preparation fail: the file it would use for rendezvous.
LEAVES = "echo weights > checkpoint-$RANK.pt; touch ../rendezvous-2 ../rendezvous-3; exit 75"


def leaves_a_checkpoint(play: Play, **variables: Any) -> Path:
    """A job whose first attempt leaves a checkpoint on the shared directory, and which cannot start a second one."""
    play.write("code/data.txt", "x")
    fixed = {"command": ["sh", "-c", LEAVES], "init_method": "file", "restart_exit_codes": [75]}
    return job(play, source=str(play.cwd / "code"), source_include=[], **{**FAST, **fixed, **variables})


def test_a_restart_that_is_refused_keeps_what_the_attempt_before_left(play: Play) -> None:
    done = play("run", leaves_a_checkpoint(play), "-i", fleet(play, "a", "b"), "--name", "refused")
    assert done.code == 69, done.err
    assert "exists already" in done.err
    run = play.home / "runs" / "refused"
    kept = sorted(path.name for path in (run / "artifacts").rglob("*.pt"))
    assert kept == ["checkpoint-0.pt", "checkpoint-1.pt"]
    assert play.document(run)["missing"] == []
    assert play.left_on_host() == []
    assert list((play.cwd / "shared").glob(".ddp-play/*")) == [], "it is in the bundle, so nothing stays"
