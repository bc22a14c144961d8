"""Ends of a playbook from outside: `stop` before and after its job, and a signal during it; also in a session."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING

import pytest

from ddp_play.bundle.paths import RunPaths
from ddp_play.bundle.run_locks import is_locked
from tests.run.conftest import LOCAL, Play, alive, living
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.dist, pytest.mark.runner]
# Its worker is a process of its own, and would go on for minutes.
SLOW = """
- ansible.builtin.command: touch {began}
  until: false
  retries: 1000
  delay: 1
  changed_when: false
"""


def playbook(play: Play, *, after: bool) -> tuple[Path, Path]:
    """A playbook with a task that does not end, and the file that shows that it has begun."""
    began = play.cwd / "began"
    tasks = "".join(f"    {line}\n" for line in SLOW.format(began=began).strip().splitlines())
    text = f"""
- hosts: ranks
  gather_facts: false
  pre_tasks:
{tasks if not after else "    []"}
  roles:
    - role: ddp.play.ddp_job
      vars: {{ddp_job_command: [echo, trained]}}
  post_tasks:
{tasks if after else "    []"}
"""
    return play.write("slow.yml", text), began


@pytest.mark.parametrize("with_session", [False, True], ids=["alone", "session"])
@pytest.mark.parametrize("after", [False, pytest.param(True, marks=pytest.mark.long)], ids=["before", "after"])
def test_a_task_that_does_not_end_is_stopped(play: Play, *, after: bool, with_session: bool) -> None:
    job, began = playbook(play, after=after)
    if with_session:
        assert play("session", "-i", LOCAL, "-d").code == 0
    try:
        assert play("run", job, "-i", LOCAL, "-d", "--name", "slow").code == 0
        wait_until(began.exists, timeout_s=60, what="the task runs")
        stopped = play("stop", "slow", timeout_s=60)
        document = play.document(play.home / "runs" / "slow")
        words = "the job succeeded" if after else "stopped before it started"
        assert (document["status"], document["exit_code"]) == ("stopped", 130), stopped.err
        assert words in document["verdict"]["message"]
        assert [rank["exit_code"] for rank in document["ranks"]] == ([0] * len(document["ranks"]) if after else [])
        assert play.left_on_host() == []
        run = str(play.home / "runs" / "slow")
        wait_until(lambda: not living(run), timeout_s=60, what="what its worker had started ends")
        began.unlink()
        time.sleep(3)  # three times the delay of the task
        assert not began.exists(), "its worker goes on"
    finally:
        play("session", "-i", LOCAL, "--end")


@pytest.mark.parametrize("with_session", [False, True], ids=["alone", "session"])
def test_a_signal_to_the_background_process_takes_no_supervisor_from_the_ranks(
    play: Play, *, with_session: bool
) -> None:
    """The worker that supervises is a process of its own: it goes on, and the run ends as it would have."""
    end = play.cwd / "end"
    job = play.job({"command": ["sh", "-c", f"echo begun; while [ ! -e {end} ]; do sleep 0.1; done"]})
    if with_session:
        assert play("session", "-i", LOCAL, "-d").code == 0
    try:
        assert play("run", job, "-i", LOCAL, "-d", "--name", "orphan").code == 0
        run = play.home / "runs" / "orphan"
        log = run / "logs" / "rank-0.log"
        wait_until(lambda: log.exists() and log.read_bytes() == b"begun\n", timeout_s=60, what="the rank runs")
        background = int(json.loads((run / "background.json").read_text())["pid"])
        os.kill(background, signal.SIGTERM)
        wait_until(lambda: not alive(background), timeout_s=30, what="the background process ends")
        assert is_locked(RunPaths(run).lock), "it supervises"
        end.touch()
        assert play("attach", "orphan").code == 0
        assert play.document(run)["status"] == "succeeded"
        assert play.left_on_host() == []
    finally:
        play("session", "-i", LOCAL, "--end")
