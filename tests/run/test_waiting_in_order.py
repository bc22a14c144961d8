"""Runs that wait for slots start in the order in which they began to wait, and a waiter that dies is forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.run.conftest import LOCAL, Play, wait_until

pytestmark = [pytest.mark.dist, pytest.mark.runner]

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


def test_three_controllers_start_in_the_order_in_which_they_began_to_wait(play: Play) -> None:
    begin(play, "first", 1)
    wait_until(lambda: order(play) == ["first"])
    waiting = ["c", "a", "b"]
    for name in waiting:
        begin(play, name, 1, 1, "--wait")
        wait_for(play, name, "waiting")
    end(play, "first", *waiting)
    for name in waiting:
        wait_for(play, name, "succeeded", timeout_s=60)
    assert order(play) == ["first", *waiting]
