"""Two runs on the same hosts: they share no slot, and neither touches what is the other's."""

from __future__ import annotations

import getpass
import json
import os
import signal

import pytest

from tests.endings import kill_each
from tests.run.conftest import LOCAL, Play, alive, living
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]


def test_a_run_that_would_oversubscribe_is_refused_or_waits(play: Play) -> None:
    job = play.job(
        {"command": ["sh", "-c", "echo begun; while [ ! -e end ]; do sleep 0.1; done"], "workdir": str(play.cwd)}
    )
    play("run", job, "-i", LOCAL, "-d", "--name", "first")
    log = play.home / "runs" / "first" / "logs" / "rank-1.log"
    wait_until(lambda: log.exists() and log.read_bytes() == b"begun\n")
    refused = play("run", job, "-i", LOCAL, "--name", "second")
    assert refused.code == 75, refused.err
    assert f"0 of 2 slots free and 2 needed; held by run first of {getpass.getuser()}" in refused.err
    assert "--wait" in refused.err
    third = play.start("run", job, "-i", LOCAL, "--name", "third", "--wait-at-most", "5m")
    wait_until(lambda: play("ps", "--json").json["runs"][0]["status"] == "waiting", what="the third waits")
    (play.cwd / "end").touch()
    out, err = third.communicate(timeout=90)
    assert third.returncode == 0, err
    assert "waiting for slots: localhost: 0 of 2 slots free" in err
    assert "begun" in out
    assert play("attach", "first").code == 0
    assert play.left_on_host() == []


def test_one_slot_each_is_no_conflict_and_a_stop_ends_one(play: Play) -> None:
    job = play.job({"command": ["sh", "-c", "echo begun; sleep 600"], "ranks_per_host": 1})
    for name in ("left", "right"):
        play("run", job, "-i", LOCAL, "-d", "--name", name)
    logs = [play.home / "runs" / name / "logs" / "rank-0.log" for name in ("left", "right")]
    wait_until(lambda: all(log.exists() and log.read_bytes() == b"begun\n" for log in logs))
    play("stop", "left", "--now")
    assert play.document(play.home / "runs" / "left")["status"] == "stopped"
    rows = play("ps", "-i", LOCAL, "--json").json["on_hosts"]
    assert [(row["run"], row["guard_alive"], row["ranks"]["0"]["state"]) for row in rows] == [
        ("right", True, "running")
    ]
    play("stop", "right", "--now")
    assert play.left_on_host() == []


def kill_controller_and_guard(play: Play, run: str) -> None:
    """As a power cut would: nobody is left to clean up, only the ranks go on."""
    word = str(play.home / "runs" / run)
    guard = guard_of(play, run)
    kill_each((*(pid for pid in living(word) if pid != guard), guard))


def guard_of(play: Play, run: str) -> int:
    state = play.place(run) / "state.json"
    return int(json.loads(state.read_text())["guard_pid"])


def test_gc_lists_then_removes_and_leaves_alone_what_lives_or_is_anothers(play: Play) -> None:
    job = play.job({"command": ["sh", "-c", "echo begun; exec sleep 600"], "ranks_per_host": 1})
    for name in ("alive", "dead"):
        play("run", job, "-i", LOCAL, "-d", "--name", name)
    logs = [play.home / "runs" / name / "logs" / "rank-0.log" for name in ("alive", "dead")]
    wait_until(lambda: all(log.exists() and log.read_bytes() == b"begun\n" for log in logs))
    state = play.place("dead") / "state.json"

    def rank_pid() -> int:
        """0 until the guard has written what it started."""
        return json.loads(state.read_text())["ranks"]["0"]["pid"] or 0

    rank = wait_until(rank_pid, timeout_s=60, what="the pid of the rank")
    kill_controller_and_guard(play, "dead")
    stranger = play.host_dir / "runs" / "theirs" / "1.localhost"
    stranger.mkdir(parents=True)
    (stranger / "spec.json").write_text(json.dumps({"owner": "somebody-else"}))
    listed = play("gc", "-i", LOCAL)
    assert listed.code == 0, listed.err
    me = getpass.getuser()
    why = "left alone, its files are perhaps not collected"
    assert f"localhost: run dead attempt 1 of {me} (running): {state.parent}: {why}" in listed.out
    assert f"run alive attempt 1 of {me} (running): {play.place('alive')}: left alone, running" in listed.out
    assert "run theirs attempt 1 of somebody-else" in listed.out
    assert state.exists(), "listing removes nothing"
    assert play("gc", "-i", LOCAL, "--yes").code == 0
    assert state.exists(), "its logs are not collected"
    assert play("gc", "-i", LOCAL, "--run", "dead", "--yes").code == 0
    assert not state.parent.exists()
    wait_until(lambda: not alive(rank), what="its rank is gone")
    assert stranger.exists()
    assert play("ps", "-i", LOCAL, "--json").json["on_hosts"][0]["guard_alive"]
    assert play("gc", "-i", LOCAL, "--all-users", "--yes").code == 0
    assert not stranger.exists()
    removed = play("gc", "-i", LOCAL, "--run", "alive", "--yes")
    assert removed.code == 0, removed.err
    wait_until(lambda: play.left_on_host() == [], what="asked for by name, a living run goes too")


def test_gc_leaves_what_a_dead_supervisor_has_not_collected_and_attach_collects_it(play: Play) -> None:
    (play.cwd / "src").mkdir()
    (play.cwd / "src" / "train.py").touch()
    job = play.job(
        {
            "command": ["sh", "-c", "echo begun; while [ ! -e $END ]; do sleep 0.1; done; echo weights > model.pt"],
            "env": {"END": str(play.cwd / "end")},
            "ranks_per_host": 1,
            "source": str(play.cwd / "src"),
            "artifacts": ["*.pt"],
            "lease": "10m",
        }
    )
    began = play("run", job, "-i", LOCAL, "-d", "--name", "night")
    assert began.code == 0, began.err
    log = play.home / "runs" / "night" / "logs" / "rank-0.log"
    wait_until(lambda: log.exists() and log.read_bytes() == b"begun\n")
    state, guard = play.place("night") / "state.json", guard_of(play, "night")
    kill_each(set(living(str(play.home / "runs" / "night"))) - {guard})
    (play.cwd / "end").touch()
    wait_until(lambda: not alive(guard), what="the guard has ended")
    swept = play("gc", "-i", LOCAL, "--yes")
    assert state.exists(), swept.out
    assert "ddp-play attach night collects them" in swept.out.replace("\n", " ")
    assert play("attach", "night").code == 0
    kept = [path.read_text() for path in (play.home / "runs" / "night" / "artifacts").rglob("model.pt")]
    assert (kept, play.left_on_host()) == (["weights\n"], [])


def test_a_slot_is_free_again_when_its_guard_dies(play: Play) -> None:
    job = play.job({"command": ["sh", "-c", "echo begun; exec sleep 600"]})
    play("run", job, "-i", LOCAL, "-d", "--name", "first")
    log = play.home / "runs" / "first" / "logs" / "rank-1.log"
    wait_until(lambda: log.exists() and log.read_bytes() == b"begun\n")
    os.kill(guard_of(play, "first"), signal.SIGKILL)
    assert play("attach", "first").code == 69, "a guard that is gone is a lost host"
    done = play("run", play.job({"command": ["true"]}), "-i", LOCAL)
    assert done.code == 0, done.err
