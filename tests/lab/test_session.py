"""Runs through a session over real SSH, in rank containers on three hosts."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from tests.run.conftest import alive
from tests.waiting import wait_until

from .rank_jobs import document, fresh, job

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Lab

WAITING = "echo begun; while [ ! -e /srv/ddp-play-shared/{go} ]; do sleep 0.2; done; echo ended"


@pytest.fixture
def session(lab3: Lab) -> Iterator[int]:
    """A session of the lab's inventory; its pid."""
    done = lab3.play("session", "-i", str(lab3.inventory), "-d")
    assert done.returncode == 0, done.stderr
    pid = int(done.stdout.split()[1])
    yield pid
    lab3.play("session", "-i", str(lab3.inventory), "--end")
    wait_until(lambda: not alive(pid), what="the session ends")


def session_of(lab: Lab, run: str) -> int | None:
    """The session that started a run."""
    found: int | None = json.loads((lab.home / "runs" / run / "background.json").read_text()).get("session")
    return found


@pytest.mark.usefixtures("clean_hosts")
def test_runs_of_a_session_use_containers_verbs_and_fail_like_others(lab3: Lab, session: int, tmp_path: Path) -> None:
    inventory = str(lab3.inventory)
    first, second, failed = (fresh(name) for name in ("first", "second", "failed"))
    path = job(tmp_path, {"command": ["sh", "-c", "echo rank $RANK of $WORLD_SIZE"]})
    for run in (first, second):
        done = lab3.play("run", path, "-i", inventory, "--name", run)
        assert done.returncode == 0, done.stderr
        assert session_of(lab3, run) == session
    logs = [
        (lab3.home / "runs" / run / "logs" / f"rank-{rank}.log").read_text()
        for run in (first, second)
        for rank in range(4)
    ]
    assert logs == [f"rank {rank} of 4\n" for rank in range(4)] * 2

    path = job(tmp_path, {"command": ["sh", "-c", "test $RANK = 3 && exit 7; sleep 600"]}, "fails.yml")
    assert lab3.play("run", path, "-i", inventory, "--name", failed).returncode == 7
    assert session_of(lab3, failed) == session
    assert document(lab3, failed)["verdict"]["rank"] == 3

    long = fresh("long")
    path = job(tmp_path, {"command": ["sh", "-c", "echo begun; sleep 600"]}, "long.yml")
    assert lab3.play("run", path, "-i", inventory, "-d", "--name", long).returncode == 0
    log = lab3.home / "runs" / long / "logs" / "rank-1.log"
    wait_until(lambda: log.exists() and log.read_bytes() == b"begun\n", timeout_s=120)
    answer = lab3.play("exec", long, "--rank", "1", "--", "sh", "-c", "echo $RANK")
    assert (answer.returncode, answer.stdout.strip(), answer.stderr) == (0, "1", "")
    assert lab3.play("stop", long, "--now").returncode == 0
    assert document(lab3, long)["status"] == "stopped"


@pytest.mark.usefixtures("clean_hosts")
def test_a_run_outlives_its_session_that_is_killed(lab3: Lab, session: int, tmp_path: Path) -> None:
    run = fresh("orphan")
    path = job(tmp_path, {"command": ["sh", "-c", WAITING.format(go=run)], "hosts": 2})
    assert lab3.play("run", path, "-i", str(lab3.inventory), "-d", "--name", run).returncode == 0
    log = lab3.home / "runs" / run / "logs" / "rank-0.log"
    wait_until(lambda: log.exists() and log.read_bytes() == b"begun\n", timeout_s=120)
    os.kill(session, signal.SIGKILL)
    lab3.on("h1", f"touch /srv/ddp-play-shared/{run}")
    try:
        done = lab3.play("attach", run)
        assert done.returncode == 0, done.stderr
        assert log.read_text() == "begun\nended\n"
        after = fresh("after")
        done = lab3.play("run", job(tmp_path, {"command": ["true"]}), "-i", str(lab3.inventory), "--name", after)
        assert done.returncode == 0, done.stderr
        assert session_of(lab3, after) is None
    finally:
        lab3.on("h1", f"rm -f /srv/ddp-play-shared/{run}")
