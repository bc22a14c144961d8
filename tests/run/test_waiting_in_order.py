"""Runs that wait for slots start in the order in which they began to wait, and a waiter that dies is forgotten."""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Play
from tests.waiting import wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]

# A waiter whose controller was killed leaves at once; it would be 30 s if it counted as lost (docs/reliability.md).
LEAVES_S = 20.0
# Adds the run's name to the file `order`, then runs until the file `end-NAME` exists.
HOLD = "echo $DDP_PLAY_RUN_ID >> order; while [ ! -e end-$DDP_PLAY_RUN_ID ]; do sleep 0.05; done"


def job(play: Play, ranks: int = 1) -> Path:
    """A job of `ranks` ranks that notes its start and waits for its end. Rank 0 alone does."""
    script = f'[ "$RANK" = 0 ] || exit 0; {HOLD}'
    made = play.job({"command": ["sh", "-c", script], "workdir": str(play.cwd), "ranks_per_host": ranks})
    return made.rename(made.with_name(f"job-{ranks}.yml"))


def begin(play: Play, name: str, slots: int, ranks: int = 1, *options: str) -> None:
    """Start a run in the background, on this machine as a host with so many slots."""
    started = play("run", job(play, ranks), "-i", LOCAL, "-e", f"ddp_slots={slots}", "-d", "--name", name, *options)
    assert started.code == 0, started.err


def order(play: Play) -> list[str]:
    """Names of the runs that have started, in order."""
    path = play.cwd / "order"
    return path.read_text().split() if path.exists() else []


def status(play: Play, name: str) -> str:
    """Status in the run's run.json."""
    return str(json.loads((play.home / "runs" / name / "run.json").read_text())["status"])


def end(play: Play, *names: str) -> None:
    """Let these runs end by themselves."""
    for name in names:
        (play.cwd / f"end-{name}").touch()


def wait_for(play: Play, name: str, wanted: str, timeout_s: float = 30.0) -> None:
    wait_until(lambda: status(play, name) == wanted, timeout_s=timeout_s, what=f"{name} is {wanted}")


def supervisor(play: Play, name: str) -> int:
    """The process that supervises a run: it holds the run's lock."""
    inode = (play.home / "runs" / name / "supervisor.lock").stat().st_ino
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return next(int(row[4]) for row in rows if row[1] == "FLOCK" and row[5].endswith(f":{inode}"))


def queue(play: Play, name: str) -> list[str]:
    """The runs ahead of a run that waits, as `ps --json` shows them."""
    (row,) = [row for row in play("ps", "--json").json["runs"] if row["run"] == name]
    assert row["queue"]["position"] == len(row["queue"]["ahead"]) + 1
    return [ahead["run"] for ahead in row["queue"]["ahead"]]


def test_three_controllers_start_in_the_order_in_which_they_began_to_wait(play: Play) -> None:
    """The first of the queue is killed with SIGKILL: the next one starts as if it had never been there."""
    begin(play, "first", 1)
    wait_until(lambda: order(play) == ["first"])
    waiting = ["killed", "c", "a", "b"]
    for name in waiting:
        begin(play, name, 1, 1, "--wait")
        wait_for(play, name, "waiting")
    assert queue(play, "b") == ["killed", "c", "a"]
    os.kill(supervisor(play, "killed"), signal.SIGKILL)
    wait_until(lambda: queue(play, "c") == [], timeout_s=LEAVES_S, what="the dead one left the queue")
    end(play, "first", *waiting)
    for name in waiting[1:]:
        wait_for(play, name, "succeeded", timeout_s=60)
    assert order(play) == ["first", "c", "a", "b"]


@pytest.mark.long
def test_a_run_that_needs_two_slots_is_not_starved_by_runs_that_need_one(play: Play) -> None:
    """One of two slots is free all the time. Whoever gives up or is stopped meanwhile leaves the queue."""
    begin(play, "first", 2)
    wait_until(lambda: order(play) == ["first"])
    begin(play, "big", 2, 2, "--wait")
    wait_for(play, "big", "waiting")
    one = ("run", job(play), "-i", LOCAL, "-e", "ddp_slots=2", "--name")
    patient, interrupted = (play.start(*one, name, "--wait") for name in ("patient", "interrupted"))
    impatient, refused = play.start(*one, "impatient", "--wait-at-most", "1s"), play.start(*one, "refused")
    for child in (impatient, refused):
        _, err = child.communicate(timeout=90)
        assert child.returncode == 75, err
        assert "1 of 2 slots free and 1 needed; reserved for runs that have waited longer" in err
        assert f"run big of {getpass.getuser()} from {socket.gethostname()}" in err
    for name in ("patient", "interrupted"):
        wait_for(play, name, "waiting")
    interrupted.send_signal(signal.SIGINT)
    _, err = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130, err
    assert "stopped while it waited for slots" in err
    wait_until(lambda: queue(play, "patient") == ["big"], timeout_s=LEAVES_S, what="only who waits is in the queue")
    end(play, "first", "big", "patient")
    _, err = patient.communicate(timeout=90)
    assert patient.returncode == 0, err
    assert f"in the queue, behind run big of {getpass.getuser()}" in err
    wait_for(play, "big", "succeeded")
    assert order(play) == ["first", "big", "patient"]
    assert play.left_on_host() == []


MARK = {"reason": "mtu: 1400", "by": "kim", "controller": "login1", "since": 0.0, "level": "quick", "checks": ["mtu"]}


def test_a_run_does_not_wait_for_a_host_that_is_put_into_quarantine_meanwhile(play: Play) -> None:
    """A quarantine has no end. A new run is refused too, and the one that is there goes on."""
    begin(play, "first", 1)
    wait_until(lambda: order(play) == ["first"])
    child = play.start("run", job(play), "-i", LOCAL, "-e", "ddp_slots=1", "--name", "late", "--wait")
    wait_until((play.home / "runs" / "late" / "run.json").exists, timeout_s=30)
    wait_for(play, "late", "waiting")
    (play.host_dir / "quarantine.json").write_text(json.dumps(MARK))
    _, err = child.communicate(timeout=60)
    assert child.returncode == 69, err
    why = "in quarantine since 1970-01-01 00:00 UTC (kim from login1): mtu: 1400"
    assert f"localhost: the host takes no new runs: {why}" in err
    assert f"once it is mended: ddp-play check -i {LOCAL} --release" in err
    done = play("run", job(play), "-i", LOCAL, "-e", "ddp_slots=2")
    assert (done.code, why in done.err) == (69, True), done.err
    end(play, "first")
    wait_for(play, "first", "succeeded")
    assert order(play) == ["first"]
    assert play.left_on_host() == []
